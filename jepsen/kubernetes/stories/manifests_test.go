package stories

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestManifestsHaveOnlyKnownFields decodes what stories apply as the API server would: it drops what it does not know.
func TestManifestsHaveOnlyKnownFields(t *testing.T) {
	known := runtime.NewScheme()
	require.NoError(t, errors.Join(scheme.AddToScheme(known), snapshotv1.AddToScheme(known), groupv1.AddToScheme(known)))
	strict := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	c := claim{name: "a", class: late, size: "1Gi", modes: "ReadWriteOncePod", from: "VolumeSnapshot/s", attributes: "gold"}
	p := pod{name: "a", claim: "a", node: "n1", mount: "subPath: a", spec: "securityContext: {fsGroup: 1}", command: writeOn}
	for name, manifest := range map[string]string{
		"claim and pod":        c.manifest() + p.manifest(),
		"the least":            claim{name: "a", class: late, size: "1Gi"}.manifest() + pod{name: "a", claim: "a"}.manifest(),
		"clone":                claim{name: "a", class: late, size: "1Gi", from: "PersistentVolumeClaim/b"}.manifest(),
		"ephemeral":            pod{name: "a", volume: ephemeral}.manifest(),
		"stateful set":         three("set").manifest(),
		"database":             database.manifest(),
		"volume that is there": fmt.Sprintf(static, "ns", "a") + claim{name: "a", class: `""`, size: "1Gi"}.manifest(),
		"storage class":        suiteClasses["storageclass.yaml"],
		"snapshot":             snapshotOfData,
		"group snapshot":       groupOfBoth,
		"snapshot class":       suiteClasses["snapshotclass.yaml"],
		"group class":          suiteClasses["groupclass.yaml"],
		"attributes class":     suiteClasses["attributesclass.yaml"],
		"pod of a recovery":    fmt.Sprintf(recoverPod, "tag"),
	} {
		t.Run(name, func(t *testing.T) {
			r := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
			decoded := 0
			for {
				one, err := r.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				if strings.TrimSpace(string(one)) == "" {
					continue
				}
				_, _, err = strict.Decode(one, nil, nil)
				require.NoError(t, err, string(one))
				decoded++
			}
			require.Positive(t, decoded)
		})
	}
}

func TestStoriesHaveNamesThatNamespacesMayHave(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		require.Regexp(t, `^[a-z]([a-z0-9-]{0,50}[a-z0-9])?$`, s.Name)
		require.False(t, seen[s.Name], s.Name)
		require.NotEmpty(t, s.Tells, s.Name)
		require.Positive(t, s.Limit, s.Name)
		seen[s.Name] = true
	}
}
