package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

const fences = "/apis/csiaddons.openshift.io/v1alpha1/networkfences"

// call asks a server for something in JSON.
func call(t *testing.T, s *Server, method, path string, given Object) (int, Object) {
	t.Helper()
	text, err := json.Marshal(given)
	require.NoError(t, err)
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", map[bool]string{false: "application/json", true: "application/merge-patch+json"}[method == http.MethodPatch])
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var got Object
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	return w.Code, got
}

func newServer(t *testing.T) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := Serve(listener)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestObjectsLiveAsInKubernetes: versions, generations, statuses and finalizers are those of the API server.
func TestObjectsLiveAsInKubernetes(t *testing.T) {
	s := newServer(t)
	fence := func(state string, more map[string]any) Object {
		o := Object{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"fenceState": state}}
		for key, value := range more {
			o.Meta()[key] = value
		}
		return o
	}
	code, made := call(t, s, http.MethodPost, fences, fence("Fenced", map[string]any{"finalizers": []any{"hold"}}))
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "NetworkFence", made["kind"])
	code, _ = call(t, s, http.MethodPost, fences, fence("Fenced", nil))
	require.Equal(t, http.StatusConflict, code)

	written := made.clone()
	written["status"], written["spec"] = map[string]any{"result": "Succeeded"}, map[string]any{"fenceState": "Unfenced"}
	_, got := call(t, s, http.MethodPut, fences+"/a/status", written)
	require.Equal(t, "Fenced", got.Text("spec", "fenceState"), "the path of the status changes nothing else")
	require.InDelta(t, 1, got.Get("metadata", "generation"), 0)
	code, _ = call(t, s, http.MethodPut, fences+"/a", written)
	require.Equal(t, http.StatusConflict, code, "of a version that is no longer")
	_, got = call(t, s, http.MethodPatch, fences+"/a", Object{"spec": map[string]any{"fenceState": "Unfenced"}})
	require.InDelta(t, 2, got.Get("metadata", "generation"), 0)
	require.Equal(t, "Succeeded", got.Text("status", "result"))
	_, got = call(t, s, http.MethodPut, fences+"/a", Object{"metadata": map[string]any{"finalizers": []any{"hold"}}, "spec": map[string]any{"fenceState": "Fenced"}})
	require.Equal(t, "NetworkFence", got.Text("kind"), "also where the body does not say it")

	_, got = call(t, s, http.MethodDelete, fences+"/a", nil)
	require.NotEmpty(t, got.Text("metadata", "deletionTimestamp"))
	require.NoError(t, s.Update(Ref{"networkfences", "", "a"}, func(o Object) { delete(o.Meta(), "finalizers") }))
	code, _ = call(t, s, http.MethodGet, fences+"/a", nil)
	require.Equal(t, http.StatusNotFound, code)
}

// TestWatchersMissNothing: what is there, the mark behind it, then each change.
func TestWatchersMissNothing(t *testing.T) {
	s := newServer(t)
	add := func(name string) {
		_, err := s.Create(Ref{"networkfences", "", name}, Object{})
		require.NoError(t, err)
	}
	add("a")
	ctx, cancel := context.WithCancel(t.Context())
	var seen []string
	r, _ := find("networkfences")
	require.NoError(t, s.store.watch(ctx, selection{resource: r}, "", true, func(kind string, o Object) error {
		seen = append(seen, kind+" "+o.Text("metadata", "name"))
		switch len(seen) {
		case 2:
			add("b")
		case 3:
			require.NoError(t, s.Delete(Ref{"networkfences", "", "a"}))
		case 4:
			cancel()
		}
		return nil
	}))
	require.Equal(t, []string{"ADDED a", "BOOKMARK ", "ADDED b", "DELETED a"}, seen)
}

// TestOnlyTheTokenIsServed: and it alone is authentic.
func TestOnlyTheTokenIsServed(t *testing.T) {
	s := newServer(t)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fences, nil))
	require.Equal(t, http.StatusUnauthorized, w.Code)
	for token, want := range map[string]bool{s.token: true, "another": false} {
		_, got := call(t, s, http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", Object{"spec": map[string]any{"token": token}})
		require.Equal(t, want, got.Get("status", "authenticated"))
	}
	code, _ := call(t, s, http.MethodGet, "/apis/apps/v1/deployments", nil)
	require.Equal(t, http.StatusNotFound, code)
}

func bytesField(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

// TestLeasesComeInProtobuf: as client-go encodes them.
func TestLeasesComeInProtobuf(t *testing.T) {
	varint := func(number protowire.Number, value uint64) string {
		return string(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value))
	}
	spec := bytesField(1, "holder") + varint(2, 15) + bytesField(4, varint(1, 1700000000)+varint(2, 5000))
	lease := bytesField(1, bytesField(1, "name")+bytesField(8, "")) + bytesField(2, spec)
	got, err := fromProtobuf("Lease", []byte(string(magic)+bytesField(1, "type")+bytesField(2, lease)))
	require.NoError(t, err)
	require.Equal(t, Object{"metadata": map[string]any{"name": "name"}, "spec": map[string]any{
		"holderIdentity": "holder", "leaseDurationSeconds": float64(15), "renewTime": "2023-11-14T22:13:20.000005Z"}}, got)
	_, err = fromProtobuf("Lease", []byte(string(magic)+bytesField(2, bytesField(9, "new"))))
	require.Error(t, err)
	_, err = fromProtobuf("Pod", magic)
	require.Error(t, err)
}

// TestMetadataOfClaimsComeInProtobuf: labels, annotations and finalizers are read, and the spec stays what it was.
func TestMetadataOfClaimsComeInProtobuf(t *testing.T) {
	pair := bytesField(1, "owner") + bytesField(2, "shop")
	meta := bytesField(1, "data") + bytesField(12, pair) + bytesField(12, bytesField(1, "empty")) + bytesField(14, "one") + bytesField(14, "two")
	got, err := fromProtobuf("PersistentVolumeClaim", []byte(string(magic)+bytesField(2, bytesField(1, meta)+bytesField(2, "not read"))))
	require.NoError(t, err)
	require.Equal(t, Object{"metadata": map[string]any{"name": "data", "annotations": map[string]any{"owner": "shop", "empty": ""}, "finalizers": []any{"one", "two"}}}, got)
}
