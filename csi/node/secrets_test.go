package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestS63_PassphrasesGoToTheHostAndNowhereElse(t *testing.T) {
	const canary = "canary-passphrase"
	one, two := executor.NewPassphrase(canary), executor.NewPassphrase(canary+"-before")
	for name, tc := range map[string]struct {
		secrets map[string]string
		keys    []executor.Passphrase
		want    codes.Code
	}{
		"none":                     {},
		"the present one":          {secrets: map[string]string{"encryptionPassphrase": canary}, keys: []executor.Passphrase{one}},
		"and the one before":       {secrets: map[string]string{"encryptionPassphrase": canary, "previousEncryptionPassphrase": canary + "-before"}, keys: []executor.Passphrase{one, two}},
		"the one before alone":     {secrets: map[string]string{"previousEncryptionPassphrase": canary}},
		"others are passed over":   {secrets: map[string]string{"a": "b"}},
		"one of which is too long": {secrets: map[string]string{"encryptionPassphrase": strings.Repeat(canary, 40)}, want: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			_, err := newServer(t, h).NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
				VolumeId: id, StagingTargetPath: "/s", VolumeCapability: capability(), PublishContext: epochContext("2.77"), Secrets: tc.secrets,
			})
			requireCode(t, tc.want, err)
			require.Equal(t, tc.keys, h.stages.Keys)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", h.stages, h.stages, h.stages, h.stages.Keys), canary)
			_, err = newServer(t, h).NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: "/v", Secrets: tc.secrets})
			requireCode(t, tc.want, err)
			require.Equal(t, tc.keys, h.expands.Keys)
		})
	}
}

func TestAPassphraseThatOpensNothingIsUnauthenticated(t *testing.T) {
	h := &fakeHost{err: fsm.Reject(fsm.Unauthenticated, "it opens no slot")}
	_, err := newServer(t, h).NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: "/s", VolumeCapability: capability(), PublishContext: epochContext("2.77"), Secrets: map[string]string{"encryptionPassphrase": "x"},
	})
	requireCode(t, codes.Unauthenticated, err)
}
