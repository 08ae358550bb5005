package controller

import (
	"slices"
	"testing"

	addonsspec "github.com/csi-addons/spec/lib/go/identity"
	replicationspec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// ADD-REPL-Svc-01, -03, -04, ADD-REPL-Info-08: the six methods are on the socket, and what the flags say is advertised.
func TestReplicationIsServedAsTheFlagsSay(t *testing.T) {
	for name, tc := range map[string]struct {
		disabled string
		want     codes.Code
	}{
		"by default": {want: codes.NotFound},
		"turned off": {disabled: "VOLUME_REPLICATION", want: codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestController(t)
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			b.opts.disabled.Add(flags)
			if tc.disabled != "" {
				require.NoError(t, flags.Set("disable-capability", tc.disabled))
			}
			c := b.start()
			defer b.stopAndWait()
			require.Len(t, c.csi.GetServiceInfo()["replication.Controller"].Methods, 6)
			conn, err := grpc.NewClient(b.opts.CSIEndpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			resp, err := addonsspec.NewIdentityClient(conn).GetCapabilities(t.Context(), &addonsspec.GetCapabilitiesRequest{})
			require.NoError(t, err)
			advertised := slices.ContainsFunc(resp.GetCapabilities(), func(c *addonsspec.Capability) bool {
				return c.GetVolumeReplication().GetType() == addonsspec.Capability_VolumeReplication_VOLUME_REPLICATION
			})
			require.Equal(t, tc.disabled == "", advertised)
			volume := &replicationspec.ReplicationSource_VolumeSource{VolumeId: "hf-00000000-0000-4000-8000-000000000001"}
			req := &replicationspec.PromoteVolumeRequest{ReplicationSource: &replicationspec.ReplicationSource{Type: &replicationspec.ReplicationSource_Volume{Volume: volume}}}
			_, err = replicationspec.NewControllerClient(conn).PromoteVolume(t.Context(), req)
			require.Equal(t, tc.want, status.Code(err), err)
		})
	}
}
