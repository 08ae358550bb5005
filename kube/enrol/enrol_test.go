package enrol

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/apitest"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
)

// secretToken is a token as the API server makes them, without a signature.
func secretToken(expires time.Time) string {
	return "header." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires.Unix())) + ".signature"
}

// reviewed is what the API server says of a good token, with a change.
func reviewed(change func(status map[string]any, extra map[string]any)) map[string]any {
	extra := map[string]any{nodeName: []string{"n1"}, podName: []string{"holdfast-node-x"}, podUID: []string{"u1"}}
	status := map[string]any{
		"authenticated": true, "audiences": []string{Audience},
		"user": map[string]any{"username": "system:serviceaccount:holdfast:holdfast-node", "extra": extra},
	}
	if change != nil {
		change(status, extra)
	}
	return map[string]any{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": map[string]any{}, "status": status}
}

func TestS168_WhatTheAPIServerSaysOfAToken(t *testing.T) {
	user := func(name string) func(map[string]any, map[string]any) {
		return func(s, _ map[string]any) { s["user"].(map[string]any)["username"] = name }
	}
	for name, tc := range map[string]struct {
		change func(status, extra map[string]any)
		want   string
	}{
		"a node's pod":             {},
		"S168: not good":           {func(s, _ map[string]any) { s["authenticated"] = false; s["error"] = "token secret expired" }, "does not accept it"},
		"another audience":         {func(s, _ map[string]any) { s["audiences"] = []string{"https://kubernetes.default.svc"} }, "did not say that it is for the audience"},
		"no audience":              {func(s, _ map[string]any) { delete(s, "audiences") }, "did not say that it is for the audience"},
		"S168: a controller's pod": {user("system:serviceaccount:holdfast:holdfast-controller"), "it is of system:serviceaccount:holdfast:holdfast-controller"},
		"another namespace":        {user("system:serviceaccount:other:holdfast-node"), "it is of system:serviceaccount:other:holdfast-node"},
		"a person":                 {user("ann"), "it is of ann"},
		"S168: no node":            {func(_, e map[string]any) { delete(e, nodeName) }, nodeName},
		"an empty node":            {func(_, e map[string]any) { e[nodeName] = []string{""} }, nodeName},
		"two nodes":                {func(_, e map[string]any) { e[nodeName] = []string{"n1", "n2"} }, nodeName},
		"S168: a node, and no pod": {func(_, e map[string]any) { delete(e, podName); delete(e, podUID) }, podName},
	} {
		t.Run(name, func(t *testing.T) {
			token := secretToken(time.Now().Add(time.Hour))
			f := apitest.Fake{Answer: func(request string, body map[string]any) map[string]any {
				require.Equal(t, "POST /apis/authentication.k8s.io/v1/tokenreviews", request)
				require.Equal(t, map[string]any{"token": token, "audiences": []any{Audience}}, body["spec"])
				return reviewed(tc.change)
			}}
			r := &Reviewer{Client: f.Serve(t), Namespace: "holdfast", Account: "holdfast-node"}
			for range 2 {
				of, err := r.Attest(t.Context(), token)
				if tc.want == "" {
					require.NoError(t, err)
					require.Equal(t, "n1", of.Node)
					require.Contains(t, of.By, "pod holdfast/holdfast-node-x (u1)")
					require.WithinDuration(t, time.Now().Add(time.Hour), of.Expires, time.Minute)
					continue
				}
				require.ErrorIs(t, err, enroll.ErrNotAttested)
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), token)
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

func TestAnAPIServerThatIsAwayRefusesNobody(t *testing.T) {
	f := apitest.Fake{Before: func(string) bool { return false }}
	r := &Reviewer{Client: f.Serve(t), Namespace: "holdfast", Account: "holdfast-node"}
	token := secretToken(time.Now())
	for range 2 {
		_, err := r.Attest(t.Context(), token)
		require.Error(t, err)
		require.NotErrorIs(t, err, enroll.ErrNotAttested)
		require.NotContains(t, err.Error(), token)
	}
	_, err := r.Attest(t.Context(), "")
	require.ErrorIs(t, err, enroll.ErrNotAttested)
	require.Empty(t, f.Requests)
	require.True(t, expiryOf("a.b.c").IsZero())
	require.True(t, expiryOf("opaque").IsZero())
}

func TestParseAccount(t *testing.T) {
	namespace, account, err := ParseAccount("holdfast/holdfast-node")
	require.NoError(t, err)
	require.Equal(t, []string{"holdfast", "holdfast-node"}, []string{namespace, account})
	for _, text := range []string{"", "holdfast", "/a", "a/", "a/b/c", "a:b/c", "a/b:c"} {
		_, _, err := ParseAccount(text)
		require.Error(t, err, text)
	}
}

// TestS168_ARealAPIServerAttests: tokens as kubelet gets them, of a real API server, which also tells which pod and node are gone.
func TestS168_ARealAPIServerAttests(t *testing.T) {
	api := apitest.Client(t, apitest.Start(t))
	w := &realWorld{t: t, api: api}
	w.setUp()
	r := &Reviewer{Client: api, Namespace: "holdfast", Account: "holdfast-node"}
	token := w.token("holdfast-node", Audience, "node-a")
	for range 2 {
		of, err := r.Attest(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, "a", of.Node)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), of.Expires, 2*time.Minute)
	}
	for name, token := range map[string]string{
		"another audience":        w.token("holdfast-node", "https://api.test", "node-a"),
		"another service account": w.token("holdfast-controller", Audience, "controller-0"),
		"of no pod":               w.token("holdfast-node", Audience, ""),
		"of a pod on no node":     w.token("holdfast-node", Audience, "pending"),
		"changed":                 token[:len(token)-4] + "AAAA",
		"nonsense":                "nonsense",
	} {
		for range 2 {
			_, err := r.Attest(t.Context(), token)
			require.ErrorIs(t, err, enroll.ErrNotAttested, name)
		}
	}
	none := int64(0)
	require.NoError(t, api.CoreV1().Pods("holdfast").Delete(t.Context(), "node-a", metav1.DeleteOptions{GracePeriodSeconds: &none}))
	require.Eventually(t, func() bool { // the API server keeps its answer for some seconds
		_, err := r.Attest(t.Context(), token)
		return err != nil
	}, 2*time.Minute, time.Second, "its pod is gone")
}

// realWorld has the objects of an installation, without a kubelet.
type realWorld struct {
	t   *testing.T
	api kubernetes.Interface
}

func (w *realWorld) setUp() {
	ctx, core := w.t.Context(), w.api.CoreV1()
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "holdfast"}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	for _, account := range []string{"holdfast-node", "holdfast-controller"} {
		_, err := core.ServiceAccounts("holdfast").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		require.NoError(w.t, err)
	}
	w.pod("node-a", "holdfast-node", "a")
	w.pod("pending", "holdfast-node", "")
	w.pod("controller-0", "holdfast-controller", "a")
}

func (w *realWorld) pod(name, account, node string) {
	_, err := w.api.CoreV1().Pods("holdfast").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// token asks for one as kubelet does: bound to a pod, where one is named.
func (w *realWorld) token(account, audience, pod string) string {
	w.t.Helper()
	seconds := int64(600)
	spec := authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: &seconds}
	if pod != "" {
		of, err := w.api.CoreV1().Pods("holdfast").Get(context.Background(), pod, metav1.GetOptions{})
		require.NoError(w.t, err)
		spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod, UID: of.UID}
	}
	made, err := w.api.CoreV1().ServiceAccounts("holdfast").CreateToken(w.t.Context(), account, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return made.Status.Token
}
