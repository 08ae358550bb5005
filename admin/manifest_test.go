package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func TestManifest(t *testing.T) {
	nodes := []*adminpb.Node{{Id: "n1", Site: "A"}, {Id: "n3", Site: "B"}, {Id: "n4", Site: "B"}}
	v := &adminpb.Volume{
		Id: "hf-1", SizeBytes: 1 << 30, Phase: "ready", UsedAs: "xfs", AccessModes: []string{"single_node_writer"}, Claim: &adminpb.Claim{Volume: "pv-1"},
		Replicas: []*adminpb.Replica{{Node: "n1"}, {Node: "n3"}},
	}
	text, err := Manifest("csi.example", v, nodes, "B")
	require.NoError(t, err)
	for _, want := range []string{`name: "pv-1"`, `storage: "1073741824"`, "[ReadWriteOnce]", "volumeMode: Filesystem", "driver: csi.example", "volumeHandle: hf-1", "fsType: xfs", `values: ["n3"]`, "Retain"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "claimRef")
	_, err = Manifest("csi.example", v, nodes, "C")
	require.ErrorContains(t, err, "no replica at site C")
	v.Block, v.UsedAs, v.Phase = true, "", "deleting"
	_, err = Manifest("csi.example", v, nodes, "B")
	require.ErrorContains(t, err, "not ready")
	v.Phase = "ready"
	text, err = Manifest("csi.example", v, nodes, "B")
	require.NoError(t, err)
	require.Contains(t, text, "volumeMode: Block")
	require.NotContains(t, text, "fsType")
}
