package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newReplicasEnv has two hosts with a replica of a DRBD 9 resource each.
func newReplicasEnv(t *testing.T) *env {
	w := newReplicatedEnv(t, "n1", "n2")
	w.replicasOf = map[fsm.NodeID][]*fsmpb.ImportCandidate{}
	for i, node := range []fsm.NodeID{"n1", "n2"} {
		n, _ := w.state.Node(node)
		r := &fsmpb.RegisterNode{NodeId: string(node), HostId: string(n.Host), BootId: n.Boot, FeatureLevel: fsm.MaxFeatureLevel,
			Replication: &fsmpb.Replication{Address: n.Replication.Address, PublicKey: []byte(n.Replication.PublicKey), Version: n.Replication.Version, MaxReplicas: n.Replication.MaxReplicas}}
		for _, p := range n.Pools {
			r.Pools = append(r.Pools, &fsmpb.Pool{PoolId: string(p.ID), Backend: "lvm", CapacityBytes: p.Capacity, OvercommitPercent: p.OvercommitPercent})
		}
		w.mustApply(&fsmpb.Command{Actor: "node/" + string(node), Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
		w.replicasOf[node] = []*fsmpb.ImportCandidate{{
			PoolId: r.Pools[0].PoolId, DeviceId: "uuid-" + string(node), DeviceName: "pvc-1_00000", SizeBytes: 24 << 20, Active: true, Probed: true,
			FsType: "ext4", FsUuid: importFSUUID, Signatures: []string{"drbd", "ext4"}, ReplicatedBytes: 23 << 20, ContentDigest: []byte(strings.Repeat("d", 32)), FsBytes: 22 << 20,
			Drbd: &fsmpb.DrbdMetadata{Format: 9, CurrentUuid: 0xA1B2C3D4E5F60718, ContentBytes: 22 << 20, DrbdNode: int32(i), Consistent: true, UpToDate: true, Peers: []*fsmpb.DrbdPeer{{DrbdNode: int32(1 - i)}}},
		}}
	}
	return w
}

func replicasRequest(nodes ...string) *adminpb.PlanRequest {
	req := &adminpb.PlanRequest{Verb: importDRBD, Volume: "data"}
	for _, node := range nodes {
		req.Replicas = append(req.Replicas, node+":vg/pvc-1_00000")
	}
	return req
}

// The plan shows both devices and which is what; what is carried out is that and nothing else.
func TestAnImportOfReplicasIsPlannedAndCarriedOut(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes   []string
		size    int64
		devices string
	}{
		"a pair":    {[]string{"n1", "n2"}, 23 << 20, "uuid-n1,uuid-n2"},
		"one alone": {[]string{"n2"}, 24 << 20, "uuid-n2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicasEnv(t)
			req := replicasRequest(tc.nodes...)
			plan := w.plan(req)
			text := strings.Join(planText(plan), "\n")
			for i, node := range tc.nodes {
				require.Contains(t, text, "follows replica data@"+node)
				require.Contains(t, plan.GetSteps()[i].GetDetail(), "ext4 "+importFSUUID+" on it, not open, metadata v09, generation A1B2C3D4E5F60718")
			}
			require.Contains(t, text, "todo import data@"+tc.nodes[0])
			require.Contains(t, text, "follows replace-metadata")
			require.Contains(t, plan.GetSteps()[len(plan.GetSteps())-1].GetDetail(), "must not be used again")
			require.Contains(t, plan.GetSteps()[len(plan.GetSteps())-1].GetDetail(), "only parts of the content are read")
			require.Equal(t, tc.devices, plan.GetDeviceId())

			_, err := w.server.CarryOut(context.Background(), req)
			require.Equal(t, codes.InvalidArgument, status.Code(err), "without the devices' ids")
			req.DeviceId = "uuid-n1,uuid-n3"
			_, err = w.server.CarryOut(context.Background(), req)
			require.Equal(t, codes.FailedPrecondition, status.Code(err))
			req.DeviceId, req.HostId = plan.GetDeviceId(), "h1,h9"
			_, err = w.server.CarryOut(context.Background(), req)
			require.Equal(t, codes.FailedPrecondition, status.Code(err), "another host has the name")
			req.HostId = plan.GetHostId()
			for _, want := range []string{"done import data@" + tc.nodes[0], "waiting import data@" + tc.nodes[0], "waiting import data@" + tc.nodes[0]} {
				resp, err := w.server.CarryOut(context.Background(), req)
				require.NoError(t, err)
				require.Contains(t, planText(resp), want)
				require.Equal(t, tc.devices, resp.GetDeviceId())
			}
			v := w.state.VolumeNamed("data")
			require.Equal(t, tc.size, v.Size)
			require.Equal(t, len(tc.nodes) == 2, v.Replication != nil)
			require.Equal(t, strings.Repeat("d", 32), v.Import.DRBD.ContentDigest)
			require.Equal(t, fsm.Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: "ext4", FSUUID: importFSUUID}, v.Format)
			forget := w.plan(&adminpb.PlanRequest{Verb: forgetImport, Volume: "data"})
			require.Equal(t, len(tc.nodes) == 2, forget.GetBlocked() == 1, planText(forget))
		})
	}
}

func TestAnImportOfReplicasIsBlockedWithItsReason(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *fsmpb.ImportCandidate)
		want   string
		alone  bool // it may be imported alone
	}{
		"it is up":               {func(c *fsmpb.ImportCandidate) { c.OpenCount, c.Drbd = 1, nil }, "drbdadm down", false},
		"a thick one":            {func(c *fsmpb.ImportCandidate) { c.Refusal = "it is no thin volume" }, "no thin volume", false},
		"not active":             {func(c *fsmpb.ImportCandidate) { c.Probed, c.Detail = false, "it is not active" }, "not active", false},
		"unread metadata":        {func(c *fsmpb.ImportCandidate) { c.Drbd, c.DrbdDetail = nil, "unclean" }, "unclean", false},
		"no metadata":            {func(c *fsmpb.ImportCandidate) { c.Drbd = nil }, "import lv", false},
		"a size that forgets":    {func(c *fsmpb.ImportCandidate) { c.DrbdRefusal = "extend it" }, "extend it", true},
		"no filesystem":          {func(c *fsmpb.ImportCandidate) { c.FsType, c.FsUuid, c.Signatures = "", "", []string{"drbd"} }, "--block", false},
		"another signature":      {func(c *fsmpb.ImportCandidate) { c.Signatures = []string{"dos", "drbd", "ext4"} }, "--block", false},
		"outdated, of one UUID":  {func(c *fsmpb.ImportCandidate) { c.Drbd.UpToDate = false }, "outdated", false},
		"it crashed as primary":  {func(c *fsmpb.ImportCandidate) { c.Drbd.Primary = true }, "primary", false},
		"it went on alone":       {func(c *fsmpb.ImportCandidate) { c.Drbd.Peers[0].BitmapUuid = 7 }, "went on without", true},
		"two resources":          {func(c *fsmpb.ImportCandidate) { c.Drbd.CurrentUuid = 0xBAD0BAD0 }, "00000000BAD0BAD0", true},
		"two versions of DRBD":   {func(c *fsmpb.ImportCandidate) { c.Drbd.Format = 8 }, "another version", true},
		"two sizes of content":   {func(c *fsmpb.ImportCandidate) { c.Drbd.ContentBytes += 4096 }, "connect them once", true},
		"two filesystems":        {func(c *fsmpb.ImportCandidate) { c.FsUuid = strings.Replace(c.FsUuid, "0f", "1f", 1) }, "another filesystem", true},
		"a write without DRBD":   {func(c *fsmpb.ImportCandidate) { c.ContentDigest = []byte(strings.Repeat("e", 32)) }, "without DRBD", true},
		"grown without DRBD":     {func(c *fsmpb.ImportCandidate) { c.FsBytes += 4096 }, "23072768 bytes", false},
		"content that is unread": {func(c *fsmpb.ImportCandidate) { c.ContentDigest = nil }, "older version", false},
		"a size that is unread":  {func(c *fsmpb.ImportCandidate) { c.FsBytes = 0 }, "older version", false},
		"content that is cut":    {func(c *fsmpb.ImportCandidate) { c.ReplicatedBytes = 21 << 20 }, "cut its content", true},
		"devices that differ":    {func(c *fsmpb.ImportCandidate) { c.SizeBytes, c.ReplicatedBytes = 124<<20, 123<<20 }, "differ by", true},
		"one node of DRBD twice": {func(c *fsmpb.ImportCandidate) { c.Drbd.DrbdNode = 0 }, "no other node", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicasEnv(t)
			tc.change(w.replicasOf["n2"][0])
			plan := w.plan(replicasRequest("n1", "n2"))
			require.Positive(t, plan.GetBlocked())
			require.Zero(t, plan.GetTodo(), "nothing is carried out")
			var details []string
			for _, s := range plan.GetSteps() {
				if s.GetState() == stepBlocked {
					details = append(details, s.GetDetail())
				}
			}
			require.Contains(t, strings.Join(details, "\n"), tc.want)
			require.Equal(t, tc.alone, w.plan(replicasRequest("n2")).GetTodo() == 1)
		})
	}
	t.Run("raw", func(t *testing.T) {
		w := newReplicasEnv(t)
		for _, all := range w.replicasOf {
			all[0].FsType, all[0].FsUuid, all[0].FsBytes, all[0].Signatures = "", "", 0, []string{"crypto_LUKS", "drbd"}
		}
		req := replicasRequest("n1", "n2")
		req.Block = true
		require.EqualValues(t, 1, w.plan(req).GetTodo())
		w.replicasOf["n2"][0].ContentDigest[0]++
		require.Zero(t, w.plan(req).GetTodo(), "a write without DRBD")
		w.replicasOf["n2"][0].ContentDigest[0]--
		w.replicasOf["n2"][0].FsBytes = 24 << 20
		require.Zero(t, w.plan(req).GetTodo(), "a filesystem that reaches into the metadata")
		w.replicasOf["n2"][0].FsBytes = 0
		w.replicasOf["n1"][0].Signatures = []string{"LVM2_member", "drbd"}
		require.Zero(t, w.plan(req).GetTodo())
	})
}

func TestAnImportOfReplicasThatNobodyHas(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas []string
		code     codes.Code
	}{
		"none":       {nil, codes.InvalidArgument},
		"three":      {[]string{"n1:a", "n2:a", "n3:a"}, codes.InvalidArgument},
		"no node":    {[]string{":a"}, codes.InvalidArgument},
		"no device":  {[]string{"n1:"}, codes.InvalidArgument},
		"no replica": {[]string{"n1"}, codes.InvalidArgument},
		"unknown":    {[]string{"n9:a"}, codes.NotFound},
		"not there":  {[]string{"n1:other"}, codes.NotFound},
	} {
		w := newReplicasEnv(t)
		_, err := w.server.Plan(context.Background(), &adminpb.PlanRequest{Verb: importDRBD, Volume: "data", Replicas: tc.replicas})
		require.Equal(t, tc.code, status.Code(err), name)
	}
	w := newReplicasEnv(t)
	req := replicasRequest("n1", "n1")
	require.Positive(t, w.plan(req).GetBlocked(), "one replica twice")
	req = replicasRequest("n1")
	req.Volume = ""
	_, err := w.server.Plan(context.Background(), req)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
