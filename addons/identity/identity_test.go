package identity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	spec "github.com/csi-addons/spec/lib/go/identity"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/addons/identity"
	csiidentity "github.com/holdfast-storage/holdfast/csi/identity"
)

func newServer(t *testing.T, ready error, capabilities ...*spec.Capability) (*identity.Server, *csiidentity.Server) {
	csi, err := csiidentity.New(csiidentity.Config{Version: "v1", Ready: func() error { return ready }})
	require.NoError(t, err)
	return identity.New(identity.Config{Version: "v1", Manifest: map[string]string{"site": "A"}, Capabilities: capabilities, CSI: csi}), csi
}

// ADD-ID-GetIdentity-01, -02, S34: the name is that of CSI, and the manifest shows the site.
func TestGetIdentity(t *testing.T) {
	s, csi := newServer(t, nil)
	for range 2 {
		got, err := s.GetIdentity(context.Background(), &spec.GetIdentityRequest{})
		require.NoError(t, err)
		info, err := csi.GetPluginInfo(context.Background(), &csispec.GetPluginInfoRequest{})
		require.NoError(t, err)
		require.Equal(t, info.GetName(), got.GetName())
		require.Equal(t, info.GetVendorVersion(), got.GetVendorVersion())
		require.Equal(t, "A", got.GetManifest()["site"])
	}
}

// ADD-ID-Probe-01, -02: the readiness of CSI's Probe, and its error.
func TestProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		ready error
		want  codes.Code
	}{
		"ready":     {nil, codes.OK},
		"not yet":   {errors.New("no leader"), codes.OK},
		"unhealthy": {fmt.Errorf("xfs: %w", csiidentity.ErrUnhealthy), codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newServer(t, tc.ready)
			for range 2 {
				resp, err := s.Probe(context.Background(), &spec.ProbeRequest{})
				require.Equal(t, tc.want, status.Code(err))
				if err == nil {
					require.NotNil(t, resp.GetReady())
					require.Equal(t, tc.ready == nil, resp.GetReady().GetValue())
				}
			}
		})
	}
}

// Every capability has the name of the specification, by which it is disabled.
func TestName(t *testing.T) {
	for want, c := range map[string]*spec.Capability{
		"CONTROLLER_SERVICE":    identity.Service(spec.Capability_Service_CONTROLLER_SERVICE),
		"OFFLINE":               identity.ReclaimSpace(spec.Capability_ReclaimSpace_OFFLINE),
		"NETWORK_FENCE":         identity.NetworkFence(spec.Capability_NetworkFence_NETWORK_FENCE),
		"MODIFY_VOLUME_GROUP":   identity.VolumeGroup(spec.Capability_VolumeGroup_MODIFY_VOLUME_GROUP),
		"ENCRYPTIONKEYROTATION": identity.EncryptionKeyRotation(spec.Capability_EncryptionKeyRotation_ENCRYPTIONKEYROTATION),
		"VOLUME_REPLICATION":    {Type: &spec.Capability_VolumeReplication_{VolumeReplication: &spec.Capability_VolumeReplication{Type: spec.Capability_VolumeReplication_VOLUME_REPLICATION}}},
		"":                      {},
	} {
		require.Equal(t, want, identity.Name(c))
	}
}

func TestGetCapabilities(t *testing.T) {
	s, _ := newServer(t, nil, identity.VolumeGroup(spec.Capability_VolumeGroup_VOLUME_GROUP))
	resp, err := s.GetCapabilities(context.Background(), &spec.GetCapabilitiesRequest{})
	require.NoError(t, err)
	require.Len(t, resp.GetCapabilities(), 1)
}
