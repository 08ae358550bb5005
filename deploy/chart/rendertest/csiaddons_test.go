package rendertest

import (
	"testing"

	csiaddonsv1alpha1 "github.com/csi-addons/kubernetes-csi-addons/api/csiaddons/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// addonsSecrets is the role with which the sidecars of CSI-Addons read the Secrets of the namespaces that are named.
const addonsSecrets = "holdfast-csi-addons-secrets"

const fenceSecret = "csiaddons.openshift.io/networkfence-secret-name"

// Its sidecar makes no call of a class that names no Secret: without a token there is an empty one. No other Secret of the release may be read.
func TestClassesOfCSIAddonsNameASecretThatMayBeRead(t *testing.T) {
	for token, tc := range map[string]struct {
		secret string
		made   int
	}{"": {"holdfast-csi-addons", 1}, "addons": {"addons", 0}} {
		list := objects(t, render(t, Release{KubeVersion: newest, Values: tree{"csiAddons": tree{
			"enabled": true, "tokenSecretName": token, "networkFenceClasses": tree{"fence": tree{}},
		}}}))
		classes := all[*csiaddonsv1alpha1.NetworkFenceClass](list)
		require.Len(t, classes, 1)
		require.Equal(t, tc.secret, classes[0].Spec.Parameters[fenceSecret])
		require.Equal(t, "get", namespaceRoles(t, list)["holdfast-csi-addons"]["/secrets["+tc.secret+"]"])
		require.Len(t, all[*corev1.Secret](list), tc.made)
	}
}

// What the sidecar sends of a Secret has the keys of the Secret, so the token has the key that the controllers want.
func TestTokenIsTheKeyThatTheSidecarSends(t *testing.T) {
	for name, spec := range podSpecs(objectsOfSet(t, "testdata/golden/everything-1.37.yaml")) {
		for _, volume := range spec.Volumes {
			if volume.Name == "addons-token" {
				require.Equal(t, []corev1.KeyToPath{{Key: "holdfastToken", Path: "token"}}, volume.Secret.Items, name)
			}
		}
	}
}

func TestSecretsOfAllNamespacesAreReadOnlyWhereThatIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces []any
		everywhere bool
	}{"none": {[]any{}, false}, "one": {[]any{"shop"}, false}, "all": {[]any{"*"}, true}} {
		list := objects(t, render(t, Release{KubeVersion: newest, Values: tree{"csiAddons": tree{"enabled": true, "secretNamespaces": tc.namespaces}}}))
		_, in := namespaceRoles(t, list)[addonsSecrets]
		_, everywhere := clusterRoles(t, list)[addonsSecrets]
		require.Equal(t, tc.everywhere, everywhere, name)
		require.Equal(t, name == "one", in, name)
	}
}
