package controller

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	fencespec "github.com/csi-addons/spec/lib/go/fence"
	replicationspec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/addons/token"
	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/bundle"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const canary = "canary-7f3a"

// callWithSecrets calls what takes secrets or mount flags, with a canary in each. Whether a call is served does not matter:
// nothing of it may stay.
func (b *testController) callWithSecrets() {
	b.t.Helper()
	conn, err := grpc.NewClient(b.opts.CSIEndpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, conn.Close()) }()
	secrets := map[string]string{"encryptionPassphrase": canary + "-passphrase", "previousEncryptionPassphrase": canary + "-before", "password": canary + "-other", token.Key: canary + "-token"}
	capability := func(flags ...string) *csispec.VolumeCapability {
		return &csispec.VolumeCapability{AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{FsType: "ext4", MountFlags: flags}}}
	}
	call := func(fn func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(b.t.Context(), 200*time.Millisecond)
		defer cancel()
		_ = fn(ctx) // most wait for a host, which there is not
	}
	controllers := csispec.NewControllerClient(conn)
	for i, flags := range [][]string{nil, {"noatime"}, {"password=" + canary + "-flag"}} {
		call(func(ctx context.Context) error {
			_, err := controllers.CreateVolume(ctx, &csispec.CreateVolumeRequest{Name: fmt.Sprint("pvc-", i), Secrets: secrets,
				CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30}, VolumeCapabilities: []*csispec.VolumeCapability{capability(flags...)}})
			return err
		})
		call(func(ctx context.Context) error {
			_, err := controllers.ControllerPublishVolume(ctx, &csispec.ControllerPublishVolumeRequest{VolumeId: madeVolume, NodeId: "n1", Secrets: secrets, VolumeCapability: capability(flags...)})
			return err
		})
	}
	call(func(ctx context.Context) error {
		_, err := controllers.CreateSnapshot(ctx, &csispec.CreateSnapshotRequest{Name: "snap", SourceVolumeId: madeVolume, Secrets: secrets})
		return err
	})
	call(func(ctx context.Context) error {
		_, err := controllers.ControllerExpandVolume(ctx, &csispec.ControllerExpandVolumeRequest{VolumeId: madeVolume, CapacityRange: &csispec.CapacityRange{RequiredBytes: 2 << 30}, Secrets: secrets})
		return err
	})
	call(func(ctx context.Context) error {
		_, err := controllers.ControllerModifyVolume(ctx, &csispec.ControllerModifyVolumeRequest{VolumeId: madeVolume, Secrets: secrets, MutableParameters: map[string]string{"readIOPS": "100"}})
		return err
	})
	call(func(ctx context.Context) error {
		_, err := csispec.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(ctx, &csispec.CreateVolumeGroupSnapshotRequest{Name: "group", SourceVolumeIds: []string{madeVolume}, Secrets: secrets})
		return err
	})
	call(func(ctx context.Context) error {
		_, err := fencespec.NewFenceControllerClient(conn).FenceClusterNetwork(ctx, &fencespec.FenceClusterNetworkRequest{Cidrs: []*fencespec.CIDR{{Cidr: "192.0.2.1/32"}}, Secrets: secrets})
		return err
	})
	call(func(ctx context.Context) error {
		_, err := replicationspec.NewControllerClient(conn).EnableVolumeReplication(ctx, &replicationspec.EnableVolumeReplicationRequest{ReplicationId: "r", Secrets: secrets,
			ReplicationSource: &replicationspec.ReplicationSource{Type: &replicationspec.ReplicationSource_Volume{Volume: &replicationspec.ReplicationSource_VolumeSource{VolumeId: madeVolume}}}})
		return err
	})
	call(func(ctx context.Context) error {
		_, err := controllers.DeleteVolume(ctx, &csispec.DeleteVolumeRequest{VolumeId: madeVolume, Secrets: secrets})
		return err
	})
}

const madeVolume = "hf-00000000-0000-4000-8000-000000000001"

// unpacked is the content of all files of a bundle.
func unpacked(t *testing.T, path string) (all string, names []string) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	var out strings.Builder
	archive := tar.NewReader(plain)
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out.String(), names
		}
		require.NoError(t, err)
		names = append(names, head.Name)
		_, err = io.Copy(&out, archive)
		require.NoError(t, err)
	}
}

// keyLines are lines of every key that the test's processes have.
func (b *testController) keyLines() (lines []string) {
	require.NoError(b.t, filepath.WalkDir(b.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".key") {
			return err
		}
		content, err := os.ReadFile(path)
		lines = append(lines, strings.Split(string(content), "\n")[1])
		return err
	}))
	require.GreaterOrEqual(b.t, len(lines), 3, "of the CA, the controller and the operator")
	return lines
}

// A bundle is for others to read: nothing that a caller sent as a secret, no mount flag, no key and no token is in it.
func TestNoSecretIsInABundle(t *testing.T) {
	b := newTestController(t)
	tokenFile := filepath.Join(b.dir, "token")
	require.NoError(t, os.WriteFile(tokenFile, []byte(canary+"-token\n"), 0o600))
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	b.opts.token.Add(flags)
	require.NoError(t, flags.Set("addons-token-file", tokenFile))
	c := b.start()
	defer b.stopAndWait()
	says := func(actor string, cmd *fsmpb.Command) {
		t.Helper()
		cmd.Actor, cmd.SchemaVersion = actor, fsm.LeastLevel(cmd)
		_, err := c.cluster.Propose(t.Context(), cmd)
		require.NoError(t, err)
	}
	says("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h", BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Pools: []*fsmpb.Pool{{PoolId: "p", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
	says("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: madeVolume, Name: "v", Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Capabilities: []*fsmpb.Capability{{Mode: 1, FsType: "ext4"}}}}})
	says("node/n1", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h", BootId: "b",
		Observations: []*fsmpb.Observation{{VolumeId: madeVolume, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}}}}}})
	b.callWithSecrets()
	before := c.member.Fork().Cluster().Index
	require.Greater(t, before, uint64(8), "calls with secrets are in the log")

	path := filepath.Join(t.TempDir(), "report.tar.gz")
	m, err := bundle.Write(t.Context(), path, b.client(c, pki.Viewer, "bob"), bundle.Options{Now: time.Now, Metrics: map[string]func(context.Context, io.Writer) error{
		"c1": func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, b.get(c, "/metrics"))
			return err
		},
	}})
	require.NoError(t, err)
	require.Empty(t, m.Missing)
	require.GreaterOrEqual(t, m.Log.Index, before)
	b.verifyHistory(b.client(c, pki.Viewer, "bob"))
	read, err := bundle.Open(path)
	require.NoError(t, err)
	client, stop := read.Client(0)
	b.verifyHistory(client)
	stop()
	require.NoError(t, read.Close())
	content, names := unpacked(t, path)
	require.Len(t, names, len(m.Files)+1)
	require.Contains(t, content, "holdfast_raft_applied_entries_total")
	for _, secret := range append(b.keyLines(), canary) {
		require.NotContains(t, content, secret)
	}
	packed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(packed), canary)
}

// The doctor of a controller looks at its own host, and says of a host without a session that it is not known.
func TestAControllersDoctorLooksAtItsHost(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	_, err := c.cluster.Propose(t.Context(), &fsmpb.Command{Actor: "node/n1", SchemaVersion: 1, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h", BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Pools: []*fsmpb.Pool{{PoolId: "p", Backend: "loopfile", CapacityBytes: 1 << 40}}}}})
	require.NoError(t, err)
	for range 2 {
		var resp *adminpb.DoctorResponse
		require.NoError(t, b.client(c, pki.Viewer, "bob").TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) (err error) {
			resp, err = api.Doctor(ctx, &adminpb.DoctorRequest{})
			return err
		}))
		found := map[string]string{}
		for _, d := range resp.GetFindings() {
			found[d.GetSubject()] += d.GetSeverity() + ": " + d.GetFound() + "\n"
		}
		require.Contains(t, found["member c1"], "ok: the data folder "+b.opts.dataDir+" is that of member ")
		require.Contains(t, found["member c1"], "is in use by process ")
		require.Contains(t, found["host n1"], "unknown: its host could not be asked")
		require.Contains(t, found["cluster"], "ok: c1 leads, and 1 of 1 voters answer")
		require.Equal(t, admin.SeverityUnknown, admin.WorstOf(resp.GetFindings()))
	}
}

// verifyHistory asks twice whether a journal is the cluster's history, from its beginning.
func (b *testController) verifyHistory(client *admin.Client) {
	b.t.Helper()
	for range 2 {
		var resp *adminpb.VerifyHistoryResponse
		require.NoError(b.t, client.TryEach(b.t.Context(), func(ctx context.Context, api adminpb.AdminClient) (err error) {
			resp, err = api.VerifyHistory(ctx, &adminpb.VerifyHistoryRequest{})
			return err
		}))
		require.Empty(b.t, resp.GetBreaks())
		require.True(b.t, resp.GetFromBeginning() && resp.GetMatchesState())
		require.GreaterOrEqual(b.t, resp.GetCount(), uint64(4))
		require.Equal(b.t, "c1", resp.GetMember())
		require.Len(b.t, resp.GetHead(), 32)
	}
}
