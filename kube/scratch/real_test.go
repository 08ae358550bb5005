package scratch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/holdfast-storage/holdfast/kube/apitest"
)

// TestARealAPIServerTakesThem: in a namespace that admits restricted pods alone, and in none without the rights.
func TestARealAPIServerTakesThem(t *testing.T) {
	config := apitest.Start(t)
	api := apitest.Client(t, config)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drill", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	_, err := api.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	p, _ := scratchPods(t)
	p.API, p.Namespace, p.Patience = api, "drill", time.Second
	require.NoError(t, p.Check(t.Context()))
	all, err := p.list(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, all, "it was only tried")

	_, _, err = p.Write(t.Context(), runA, 0, "n1")
	require.ErrorContains(t, err, "is not Running after 1s: Pending", "nobody schedules it")
	all, err = p.list(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 2)
	go p.unprotect(t, claimName(runA, 0))
	p.Patience = time.Minute
	require.NoError(t, p.Remove(t.Context(), runA))

	p.Namespace = "nowhere"
	require.ErrorContains(t, p.Check(t.Context()), `create a claim: namespaces "nowhere" not found`)
	requireRights(t, p, config)
}

// unprotect lets a claim go, as the controller does that is not there, once it was deleted.
func (p *Pods) unprotect(t *testing.T, claim string) {
	for t.Context().Err() == nil {
		found, err := p.API.CoreV1().PersistentVolumeClaims("drill").Get(t.Context(), claim, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if err == nil && found.DeletionTimestamp != nil {
			_, _ = p.API.CoreV1().PersistentVolumeClaims("drill").Patch(t.Context(), claim, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// requireRights asks as somebody who may do nothing, and then more and more.
func requireRights(t *testing.T, p *Pods, config *rest.Config) {
	t.Helper()
	admin := p.API
	other := rest.CopyConfig(config)
	other.Impersonate = rest.ImpersonationConfig{UserName: "ann"}
	p.API, p.Namespace = apitest.Client(t, other), "drill"
	require.ErrorContains(t, p.Check(t.Context()), "does not let you get pods, list pods")
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims"}, Verbs: []string{"get", "list", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "drill"}, Rules: rules}
	_, err := admin.RbacV1().Roles("drill").Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings("drill").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "drill"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "drill"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	requireSoon(t, func() error { return p.Check(t.Context()) }, "create a claim: persistentvolumeclaims is forbidden")
	role.Rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims"}, Verbs: []string{"create"}})
	_, err = admin.RbacV1().Roles("drill").Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	requireSoon(t, func() error { return p.Check(t.Context()) }, "")
	found, others, err := p.Leftovers(t.Context(), time.Now())
	require.NoError(t, err, "in the own namespace, where not all may be listed")
	require.Empty(t, append(found, others...))
	_, err = p.NotOn(t.Context(), "n1")
	require.ErrorContains(t, err, `look at node n1: nodes "n1" is forbidden`)
}

// requireSoon waits until it is said, as rights are read with a delay.
func requireSoon(t *testing.T, do func() error, says string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		if says == "" {
			require.NoError(c, do())
			return
		}
		require.ErrorContains(c, do(), says)
	}, 10*time.Second, 100*time.Millisecond)
}
