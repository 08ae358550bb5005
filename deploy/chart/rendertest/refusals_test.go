package rendertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongCombinationsAreRefusedInOneSentence(t *testing.T) {
	for name, refused := range map[string]struct {
		values  tree
		version string
		says    string
	}{
		"two controllers":                 {values: tree{"controller": tree{"replicas": 2}}, says: "replicas"},
		"nodes for some controllers":      {values: tree{"controller": tree{"nodes": []any{"a"}}}, says: "names 1 nodes for 3 controllers"},
		"a node twice":                    {values: tree{"controller": tree{"nodes": []any{"a", "b", "a"}}}, says: "names a node twice"},
		"a class without its name":        {values: tree{"controller": tree{"storage": tree{"type": "class"}}}, says: "controller.storage.className"},
		"a class and nodes":               {values: tree{"controller": tree{"nodes": []any{"a", "b", "c"}, "storage": tree{"type": "class", "className": "x"}}}, says: "controller.nodes are for"},
		"logs on our own volumes":         {values: tree{"controller": tree{"storage": tree{"type": "class", "className": "holdfast-local"}}}, says: "volumes that they serve"},
		"cert-manager without an issuer":  {values: tree{"pki": tree{"mode": "certManager"}}, says: "pki.certManager.issuerName"},
		"no pool":                         {values: tree{"node": tree{"pools": tree{"dir": ""}}}, says: "needs a pool"},
		"a network that is none":          {values: tree{"node": tree{"replication": tree{"addressFrom": "eth1"}}}, says: "addressFrom"},
		"replicas without hostPID":        {values: tree{"node": tree{"hostPID": false, "replication": tree{"enabled": true}}}, says: "needs node.hostPID"},
		"zones before they are given":     {values: tree{"zoneFromNode": true}, version: oldest, says: "needs Kubernetes 1.35"},
		"the zone twice":                  {values: tree{"zoneFromNode": true, "node": tree{"topologyLabels": tree{"topology.holdfast.storage/zone": "a"}}}, says: "keep one"},
		"the host's name as a label":      {values: tree{"node": tree{"topologyLabels": tree{"topology.holdfast.storage/node": "a"}}}, says: "each host's name"},
		"a policy without the hosts":      {values: tree{"networkPolicy": tree{"enabled": true}}, says: "networkPolicy.nodeCIDRs"},
		"changed blocks without TLS":      {values: tree{"snapshots": tree{"enabled": true}, "snapshotMetadata": tree{"enabled": true}}, says: "tlsSecretName"},
		"changed blocks without a CA":     {values: tree{"kube": tree{"enabled": false}, "snapshots": tree{"enabled": true}, "snapshotMetadata": tree{"enabled": true, "tlsSecretName": "x"}}, says: "needs snapshotMetadata.caCert"},
		"changed blocks of no snapshots":  {values: tree{"snapshotMetadata": tree{"enabled": true, "tlsSecretName": "x", "caCert": "x"}}, says: "needs snapshots"},
		"group snapshots of no snapshots": {values: tree{"snapshots": tree{"enabled": false, "groups": true}}, says: "without snapshots"},
		"S3 for no backups":               {values: tree{"controller": tree{"backup": tree{"endpoint": "https://s3"}}}, says: "no place for backups"},
		"two default classes":             {values: tree{"storageClasses": tree{"holdfast-local": tree{"default": true}, "holdfast-encrypted": tree{"default": true}}}, says: "are all the default"},
		"an unknown parameter of a class": {values: tree{"storageClasses": tree{"holdfast-local": tree{"parameters": tree{"replica": "2"}}}}, says: "replica"},
		"the tag latest":                  {values: tree{"image": tree{"tag": "latest"}}, says: "tag"},
		"half a digest":                   {values: tree{"image": tree{"digest": "sha256:abc"}}, says: "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			release := Release{KubeVersion: refused.version, Values: refused.values}
			if release.KubeVersion == "" {
				release.KubeVersion = newest
			}
			for _, helm := range []func(Release) (map[string]string, error){Helm3, Helm4} {
				_, err := helm(release)
				require.ErrorContains(t, err, refused.says)
				require.NotContains(t, strings.TrimSpace(lastSentence(err)), "\n")
			}
		})
	}
}

// lastSentence is what a template says when it fails; of the schema's errors, which Helm words, nothing.
func lastSentence(err error) string {
	_, text, _ := strings.Cut(err.Error(), "error calling fail: ")
	return text
}
