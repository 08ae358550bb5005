package identity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

func ready() error { return nil }

func newServer(t *testing.T, cfg identity.Config) *identity.Server {
	t.Helper()
	if cfg.Version == "" {
		cfg.Version = "v1.2.3"
	}
	s, err := identity.New(cfg)
	require.NoError(t, err)
	return s
}

// CSI-ID-GetPluginInfo-01..06, -08.
func TestGetPluginInfo(t *testing.T) {
	s := newServer(t, identity.Config{Ready: ready})
	for range 2 {
		info, err := s.GetPluginInfo(context.Background(), &csi.GetPluginInfoRequest{})
		require.NoError(t, err)
		require.Equal(t, "csi.holdfast.storage", info.GetName())
		require.LessOrEqual(t, len(info.GetName()), 63)
		require.Regexp(t, `^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, info.GetName())
		require.Equal(t, "v1.2.3", info.GetVendorVersion())
		require.Empty(t, info.GetManifest())
	}
}

// CSI-ID-GetPluginInfo-02, -03, -05, -07, CSI-OPS-Oper-06: what cannot be served does not start.
func TestNewRefusesWhatCannotBeServed(t *testing.T) {
	for name, cfg := range map[string]identity.Config{
		"a name of 64 bytes":                 {Name: strings.Repeat("a", 64), Version: "v", Ready: ready},
		"a name that ends with a digit":      {Name: "csi.holdfast.v2", Version: "v", Ready: ready},
		"a name that begins with a hyphen":   {Name: "-csi.holdfast", Version: "v", Ready: ready},
		"a name with an empty label":         {Name: "csi..holdfast", Version: "v", Ready: ready},
		"no version":                         {Ready: ready},
		"no way to tell whether it is ready": {Version: "v"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.New(cfg)
			require.Error(t, err)
		})
	}
}

// CSI-ID-GetPluginCapabilities-01..03, -05..11: the same set whatever the process
// serves, none of it unknown; what is turned off is missing everywhere.
func TestGetPluginCapabilities(t *testing.T) {
	capabilities := func(cfg identity.Config) *csi.GetPluginCapabilitiesResponse {
		resp, err := newServer(t, cfg).GetPluginCapabilities(context.Background(), &csi.GetPluginCapabilitiesRequest{})
		require.NoError(t, err)
		return resp
	}
	controller := capabilities(identity.Config{Ready: ready})
	node := capabilities(identity.Config{Ready: func() error { return errors.New("no session yet") }})
	require.True(t, proto.Equal(controller, node))
	require.Equal(t, []string{"CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS", "GROUP_CONTROLLER_SERVICE", "SNAPSHOT_METADATA_SERVICE", "ONLINE"}, names(controller))
	disabled := capabilities(identity.Config{Ready: ready, NoExpansion: true, Disabled: []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE, csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE,
	}})
	require.Equal(t, []string{"CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"}, names(disabled))
}

func names(resp *csi.GetPluginCapabilitiesResponse) (all []string) {
	for _, c := range resp.GetCapabilities() {
		if c.GetService() != nil {
			all = append(all, c.GetService().GetType().String())
		} else {
			all = append(all, c.GetVolumeExpansion().GetType().String())
		}
	}
	return all
}

// CSI-ID-Probe-01..08, -10.
func TestProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		ready error
		want  codes.Code
	}{
		"ready":                                 {nil, codes.OK},
		"not yet is an answer, said outright":   {errors.New("no leader is known"), codes.OK},
		"unhealthy is an error (-02, -06, -07)": {fmt.Errorf("mkfs.xfs is missing: %w", identity.ErrUnhealthy), codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, identity.Config{Ready: func() error { return tc.ready }})
			for range 2 {
				resp, err := s.Probe(context.Background(), &csi.ProbeRequest{})
				require.Equal(t, tc.want, status.Code(err))
				if tc.want == codes.OK {
					require.NotNil(t, resp.GetReady())
					require.Equal(t, tc.ready == nil, resp.GetReady().GetValue())
				}
			}
		})
	}
}
