package rendertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// verbs by the letters of the tables below.
var verbs = map[rune]string{'g': "get", 'l': "list", 'w': "watch", 'c': "create", 'u': "update", 'p': "patch", 'd': "delete"}

// What each program may do in the whole cluster: group/resource and letters.
var clusterRules = map[string]map[string]string{
	"holdfast-provisioner": {
		"/persistentvolumes": "glwcpd", "/persistentvolumeclaims": "glwu", "/nodes": "glw",
		"storage.k8s.io/storageclasses": "glw", "storage.k8s.io/csinodes": "glw", "storage.k8s.io/volumeattachments": "glw",
		"storage.k8s.io/volumeattributesclasses":  "glw",
		"snapshot.storage.k8s.io/volumesnapshots": "glwu", "snapshot.storage.k8s.io/volumesnapshotcontents": "gl",
	},
	"holdfast-attacher": {
		"/persistentvolumes": "glwp", "storage.k8s.io/volumeattachments": "glwp", "storage.k8s.io/volumeattachments/status": "p",
		"storage.k8s.io/csinodes": "glw",
	},
	"holdfast-resizer": {
		"/persistentvolumes": "glwp", "/persistentvolumeclaims": "glw", "/pods": "glw", "/persistentvolumeclaims/status": "p",
		"storage.k8s.io/volumeattributesclasses": "glw",
	},
	"holdfast-snapshotter": {
		"snapshot.storage.k8s.io/volumesnapshotclasses": "glw", "snapshot.storage.k8s.io/volumesnapshotcontents": "glwup",
		"snapshot.storage.k8s.io/volumesnapshotcontents/status":           "up",
		"groupsnapshot.storage.k8s.io/volumegroupsnapshotclasses":         "glw",
		"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents":        "glwup",
		"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/status": "up",
	},
	"holdfast-snapshot-metadata": {
		"cbt.storage.k8s.io/snapshotmetadataservices": "gl", "authentication.k8s.io/tokenreviews": "c",
		"authorization.k8s.io/subjectaccessreviews": "c", "snapshot.storage.k8s.io/volumesnapshots": "g",
		"snapshot.storage.k8s.io/volumesnapshotcontents": "g",
	},
	"holdfast-csi-addons": {"authentication.k8s.io/tokenreviews": "c", "/persistentvolumes": "g"},
	"holdfast-kube": {
		"/persistentvolumes": "glcpd", "/nodes": "glp", "/pods": "gld", "/persistentvolumeclaims": "gl",
		"storage.k8s.io/storageclasses": "gl", "storage.k8s.io/volumeattachments": "gl", "storage.k8s.io/csinodes": "l",
		"rbac.authorization.k8s.io/clusterroles[holdfast-snapshot-metadata]": "g", "cbt.storage.k8s.io/snapshotmetadataservices": "c",
		"cbt.storage.k8s.io/snapshotmetadataservices[csi.holdfast.storage]": "gud",
	},
	"holdfast-events": {"/events": "lwcup", "events.k8s.io/events": "cup"},
	"holdfast-enroll": {"authentication.k8s.io/tokenreviews": "c"},
}

// And in the release's namespace, but for those of kubelets.
var namespaceRules = map[string]map[string]string{
	"holdfast-leases":   {"coordination.k8s.io/leases": "glwcud"},
	"holdfast-kubelets": {"coordination.k8s.io/leases": "l"},
	"holdfast-kube-init": {
		"/configmaps": "c", "/configmaps[holdfast-cluster holdfast-ca-bundle]": "gu", "/secrets": "c", "/secrets[holdfast-ca]": "g",
	},
	"holdfast-kube": {
		"/configmaps": "glcud", "/pods": "cp", "/pods/eviction": "c", "policy/poddisruptionbudgets": "glcud",
		"rbac.authorization.k8s.io/roles[holdfast-kube]": "g",
	},
	"holdfast-provisioner": {
		"storage.k8s.io/csistoragecapacities": "glwcupd", "/pods": "g", "apps/replicasets": "g",
	},
	"holdfast-csi-addons": {
		"csiaddons.openshift.io/csiaddonsnodes": "glwcud", "/secrets[holdfast-addons]": "g", "/pods": "g", "apps/replicasets": "g",
		"apps/statefulsets/finalizers": "u", "apps/daemonsets/finalizers": "u",
	},
	"holdfast-csi-addons-secrets": {"/secrets": "g"},
}

func TestRulesAreThoseOfTheTable(t *testing.T) {
	list := objectsOfSet(t, "testdata/golden/everything-1.37.yaml")
	require.Equal(t, spelled(clusterRules), clusterRoles(t, list))
	require.Equal(t, spelled(namespaceRules), namespaceRoles(t, list))
}

// Whatever is set, nothing is allowed beyond the tables, no Secret but the CA's to its maker and those that are named for CSI-Addons, and
// to nodes nothing at all unless its sidecar is beside them.
func TestNoSetHasOtherRules(t *testing.T) {
	for path := range sets {
		list := objectsOfSet(t, path)
		for name, rules := range clusterRoles(t, list) {
			within(t, path, name, rules, spelled(clusterRules)[name])
		}
		for name, rules := range namespaceRoles(t, list) {
			within(t, path, name, rules, spelled(namespaceRules)[name])
		}
		for _, binding := range all[*rbacv1.ClusterRoleBinding](list) {
			boundToControllers(t, path, binding.Name, binding.RoleRef.Name, binding.Subjects)
		}
		for _, binding := range all[*rbacv1.RoleBinding](list) {
			boundToControllers(t, path, binding.Name, binding.RoleRef.Name, binding.Subjects)
		}
	}
}

func within(t *testing.T, path, name string, rules, table map[string]string) {
	t.Helper()
	for resource, verbs := range rules {
		require.Equal(t, table[resource], verbs, "%s: role %s: %s", path, name, resource)
		mayRead := name == "holdfast-kube-init" || name == addonsSecrets || name == "holdfast-csi-addons" && resource != "/secrets"
		require.False(t, strings.HasPrefix(resource, "/secrets") && !mayRead, "%s: role %s", path, name)
	}
}

func boundToControllers(t *testing.T, path, binding, role string, subjects []rbacv1.Subject) {
	t.Helper()
	require.Equal(t, binding, role, path)
	for _, subject := range subjects {
		require.Equal(t, "ServiceAccount "+Namespace, subject.Kind+" "+subject.Namespace, path)
		if role != "holdfast-csi-addons" && role != addonsSecrets {
			require.Equal(t, "holdfast-controller", subject.Name, "%s: %s", path, binding)
		}
	}
}

func clusterRoles(t *testing.T, list []runtime.Object) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, role := range all[*rbacv1.ClusterRole](list) {
		out[role.Name] = flat(t, role.Rules)
	}
	return out
}

func namespaceRoles(t *testing.T, list []runtime.Object) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, role := range all[*rbacv1.Role](list) {
		out[role.Name] = flat(t, role.Rules)
	}
	return out
}

// flat are rules by group/resource. A resource twice fails the test.
func flat(t *testing.T, rules []rbacv1.PolicyRule) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				key := group + "/" + resource
				if len(rule.ResourceNames) > 0 {
					key += fmt.Sprint(rule.ResourceNames)
				}
				require.NotContains(t, out, key)
				out[key] = strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")
			}
		}
	}
	return out
}

// spelled is a table with verbs in full.
func spelled(table map[string]map[string]string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for role, rules := range table {
		out[role] = maps.Clone(rules)
		for resource, letters := range rules {
			var list []string
			for _, letter := range letters {
				list = append(list, verbs[letter])
			}
			slices.Sort(list)
			out[role][resource] = strings.Join(list, " ")
		}
	}
	return out
}
