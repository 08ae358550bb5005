package rendertest

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

// The versions of Kubernetes that manifests are rendered for: the oldest that the chart takes, and the two newest.
const (
	oldest = "1.34.0"
	older  = "1.36.3"
	newest = "1.37.2"
)

var write = flag.Bool("write", false, "write the generated files instead of comparing them")

// What a cluster with everything has beside Kubernetes' own.
var everyAPI = []string{
	"snapshot.storage.k8s.io/v1", "groupsnapshot.storage.k8s.io/v1", "monitoring.coreos.com/v1", "cbt.storage.k8s.io/v1beta1",
	"csiaddons.openshift.io/v1alpha1", "replication.storage.openshift.io/v1alpha1", "cert-manager.io/v1",
}

type tree = map[string]any

// digest is a digest of no image.
const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// sets are the renderings that are kept, by their file.
var sets = map[string]Release{
	"../../kubernetes/holdfast.yaml": {KubeVersion: oldest},
	"../../kubernetes/holdfast-replicated.yaml": {KubeVersion: oldest, APIs: everyAPI[:2], Values: tree{
		"node": tree{"replication": tree{"enabled": true}},
	}},
	"testdata/golden/default-1.37.yaml": {KubeVersion: newest},
	"testdata/golden/single-1.36.yaml": {KubeVersion: older, Values: tree{
		"controller":           tree{"replicas": 1, "storage": tree{"type": "class", "className": "standard"}},
		"pki":                  tree{"mode": "existing", "existing": tree{"nodeTLSDir": "/etc/holdfast/tls"}},
		"kube":                 tree{"enabled": false},
		"snapshots":            tree{"enabled": false},
		"nodeTimeout":          "20s",
		"csiDriver":            tree{"seLinuxMount": true},
		"storageClasses":       tree{"holdfast-encrypted": tree{"enabled": false}, "holdfast-local": tree{"default": true, "mountOptions": []any{"noatime"}}},
		"node":                 tree{"pools": tree{"dir": "/srv/pool"}, "maxVolumes": 100},
		"disabledCapabilities": []any{"EXPAND_VOLUME"},
	}},
	"testdata/golden/replicated-1.36.yaml": {KubeVersion: older, APIs: everyAPI[:3], Values: tree{
		"controller":              tree{"nodes": []any{"a", "b", "c"}, "backup": tree{"to": "s3://backups/holdfast", "credentialsSecretName": "s3", "region": "eu-central-1"}},
		"node":                    tree{"pools": tree{"dir": "", "lvm": []any{"vg0/thin", "vg1/thin"}}, "replication": tree{"enabled": true, "selfFence": true}, "topologyLabels": tree{"example.com/rack": "r1"}},
		"zoneFromNode":            true,
		"volumeAttributesClasses": tree{"gold": tree{"iopsLimit": "5000", "bandwidthLimit": "200Mi"}},
		"networkPolicy":           tree{"enabled": true, "nodeCIDRs": []any{"192.0.2.0/24"}},
		"metrics":                 tree{"dashboard": tree{"enabled": true}},
		"snapshotMetadata":        tree{"enabled": true, "tlsSecretName": "metadata-tls", "caCert": "PEM"},
	}},
	"testdata/golden/everything-1.37.yaml": {KubeVersion: newest, APIs: everyAPI, Values: tree{
		"controller":       tree{"replicas": 5},
		"site":             "A",
		"pki":              tree{"mode": "certManager", "certManager": tree{"issuerName": "holdfast"}},
		"node":             tree{"replication": tree{"enabled": true, "addressFrom": "10.1.0.0/16"}},
		"storageClasses":   tree{"holdfast-two-sites": tree{"enabled": true, "parameters": tree{"sites": "A,B"}}, "holdfast-restore": tree{"enabled": true}},
		"snapshotMetadata": tree{"enabled": true, "tlsSecretName": "metadata-tls"},
		"csiAddons": tree{"enabled": true, "tokenSecretName": "holdfast-addons", "secretNamespaces": []any{"shop"},
			"networkFenceClasses":           tree{"holdfast": tree{"parameters": tree{"clusterID": "a"}}},
			"volumeReplicationClasses":      tree{"holdfast": tree{"parameters": tree{"peerSite": "B"}}},
			"volumeGroupReplicationClasses": tree{"holdfast": tree{"parameters": tree{"peerSite": "B", "together": "true"}}},
		},
	}},
	"testdata/golden/mirror-1.36.yaml": {KubeVersion: older, Values: tree{
		"global":     tree{"imageRegistry": "registry.example.com:5000", "imagePullSecrets": []any{tree{"name": "pull"}}},
		"image":      tree{"digest": digest},
		"sidecars":   tree{"provisioner": tree{"image": tree{"digest": digest}, "extraArgs": []any{"--retry-interval-max=1m"}}},
		"node":       tree{"kubeletDir": "/var/lib/k0s/kubelet", "extraArgs": []any{"--pprof"}, "extraEnv": []any{tree{"name": "GOMAXPROCS", "value": "2"}}, "podLabels": tree{"team": "storage"}},
		"controller": tree{"extraArgs": []any{"--pprof"}, "podAnnotations": tree{"example.com/owner": "storage"}, "nodeSelector": tree{"pool": "infra"}},
	}},
	"testdata/golden/host-1.37.yaml": {KubeVersion: newest, Values: tree{"node": tree{"mode": "host"}}},
}

// render is the manifest that both versions of Helm make of a release; a difference between them fails the test.
func render(t *testing.T, r Release) string {
	t.Helper()
	three, err := Helm3(r)
	require.NoError(t, err, "Helm 3")
	four, err := Helm4(r)
	require.NoError(t, err, "Helm 4")
	require.Equal(t, three, four, "Helm 3 and Helm 4 render the same")
	return join(three)
}

// rendered are the manifests of the kept releases, and objectsOf what is in them: tests only read them.
var (
	rendered  = map[string]string{}
	objectsOf = map[string][]runtime.Object{}
)

// renderSet is the manifest of a kept release.
func renderSet(t *testing.T, path string) string {
	t.Helper()
	if _, ok := rendered[path]; !ok {
		require.Contains(t, sets, path)
		rendered[path] = render(t, sets[path])
	}
	return rendered[path]
}

// objectsOfSet are the objects of a kept release.
func objectsOfSet(t *testing.T, path string) []runtime.Object {
	t.Helper()
	if _, ok := objectsOf[path]; !ok {
		objectsOf[path] = objects(t, renderSet(t, path))
	}
	return objectsOf[path]
}

// isCurrent holds a generated file against what it would be now, or writes it.
func isCurrent(t *testing.T, path, want string) {
	t.Helper()
	if *write {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(got), want, "%s is not what the chart makes: `make chart` writes it", path)
}
