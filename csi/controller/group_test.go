package controller_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/group"
	"github.com/holdfast-storage/holdfast/fsm"
)

type groupReq = csi.CreateVolumeGroupSnapshotRequest

const unknownGroup = "hgs-00000000-0000-4000-8000-000000000000"

func (w *env) createGroup(t testing.TB, name string, sources ...string) *csi.VolumeGroupSnapshot {
	t.Helper()
	resp, err := w.CreateVolumeGroupSnapshot(t.Context(), &groupReq{Name: name, SourceVolumeIds: sources})
	require.NoError(t, err)
	return resp.GetGroupSnapshot()
}

func membersOf(g *csi.VolumeGroupSnapshot) (ids []string) {
	for _, s := range g.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	return ids
}

// CSI-GRP-CreateVolumeGroupSnapshot-.
func TestCreateGroupArguments(t *testing.T) {
	const invalid = codes.InvalidArgument
	for name, tc := range map[string]struct {
		change func(*groupReq)
		want   codes.Code
	}{
		"-05: three volumes on two hosts":          {func(*groupReq) {}, codes.OK},
		"-04: their order is of no matter":         {func(r *groupReq) { slices.Reverse(r.SourceVolumeIds) }, codes.OK},
		"-11: one volume":                          {func(r *groupReq) { r.SourceVolumeIds = r.SourceVolumeIds[:1] }, codes.OK},
		"-09: a name is required":                  {func(r *groupReq) { r.Name = "" }, invalid},
		"-10: of 128 bytes":                        {func(r *groupReq) { r.Name = strings.Repeat("n", 128) }, codes.OK},
		"-10: not of 129":                          {func(r *groupReq) { r.Name = strings.Repeat("n", 129) }, invalid},
		"-10: without control characters":          {func(r *groupReq) { r.Name = "a\x01" }, invalid},
		"-11: sources are required":                {func(r *groupReq) { r.SourceVolumeIds = nil }, invalid},
		"-11: none is empty":                       {func(r *groupReq) { r.SourceVolumeIds[1] = "" }, invalid},
		"-11: nor twice":                           {func(r *groupReq) { r.SourceVolumeIds[1] = r.SourceVolumeIds[0] }, invalid},
		"-12: an unknown one":                      {func(r *groupReq) { r.SourceVolumeIds[1] = unknownID }, codes.NotFound},
		"-12: an id of another form":               {func(r *groupReq) { r.SourceVolumeIds[1] = "fake" }, codes.NotFound},
		"-13: an unknown parameter":                {func(r *groupReq) { r.Parameters = mapOf("a", "b") }, invalid},
		"-13: what sidecars add":                   {func(r *groupReq) { r.Parameters = mapOf("csi.storage.k8s.io/volumegroupsnapshot/name", "b") }, codes.OK},
		"-13: the policy of the class":             {func(r *groupReq) { r.Parameters = mapOf("deletionPolicy", "Delete") }, codes.OK},
		"-14: secrets are accepted":                {func(r *groupReq) { r.Secrets = mapOf("a", "b") }, codes.OK},
		"GEN-Error-12: form before the volumes":    {func(r *groupReq) { r.Name, r.SourceVolumeIds[0] = "", unknownID }, invalid},
		"GEN-Size-04: parameters above 4 KiB":      {func(r *groupReq) { r.Parameters = mapOf("csi.storage.k8s.io/x", strings.Repeat("x", 4096)) }, invalid},
		"-12: a snapshot's id is none of a volume": {func(r *groupReq) { r.SourceVolumeIds[0] = unknownSnapshot }, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
			var sources []string
			for i, zone := range []string{"z1", "z1", "z2"} {
				sources = append(sources, w.create(t, string(rune('a'+i)), accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", zone)}, nil)))
			}
			req := &groupReq{Name: "g", SourceVolumeIds: sources}
			tc.change(req)
			var first *csi.CreateVolumeGroupSnapshotResponse
			for range 2 {
				resp, err := w.CreateVolumeGroupSnapshot(t.Context(), req)
				requireCode(t, tc.want, err)
				if tc.want != codes.OK {
					require.Empty(t, w.snapshots(t), "-06, -12: nothing is cut")
					continue
				}
				if first == nil {
					first = resp
				}
				require.True(t, proto.Equal(first, resp), "-04, -17")
				g := resp.GetGroupSnapshot()
				require.True(t, fsm.GroupSnapshotID(g.GetGroupSnapshotId()).Valid(), "-15")
				require.Len(t, g.GetSnapshots(), len(req.GetSourceVolumeIds()), "-16")
				require.True(t, g.GetReadyToUse(), "-19")
				require.Positive(t, g.GetCreationTime().GetSeconds(), "-17")
				for _, s := range g.GetSnapshots() {
					require.Equal(t, g.GetGroupSnapshotId(), s.GetGroupSnapshotId(), "-20")
					require.Contains(t, req.GetSourceVolumeIds(), s.GetSourceVolumeId())
					require.True(t, s.GetReadyToUse())
				}
				require.ElementsMatch(t, membersOf(g), w.snapshots(t), "CSI-CTRL-ListSnapshots-02")
			}
		})
	}
}

// CSI-GRP-CreateVolumeGroupSnapshot-06, -21..25, S19: what stands in the way, and
// that nothing of it stays.
func TestCreateGroupFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		one, two, raw := w.create(t, "one"), w.create(t, "two"), w.create(t, "raw", withCapabilities(block(writer)))
		create := func(name string, sources ...string) error {
			ctx, cancel := shortDeadline(t)
			defer cancel()
			_, err := w.CreateVolumeGroupSnapshot(ctx, &groupReq{Name: name, SourceVolumeIds: sources})
			return err
		}
		w.createGroup(t, "g", one)
		requireCode(t, codes.AlreadyExists, create("g", two))      // -21
		requireCode(t, codes.AlreadyExists, create("g", one, two)) // -21

		w.publish(t, raw, block(writer))
		requireCode(t, codes.FailedPrecondition, create("raw", one, raw)) // -22

		w.host.update(func(h *fakeHost) { h.delayed = true })
		requireCode(t, codes.Aborted, create("slow", one, two))
		w.host.update(func(h *fakeHost) { h.delayed = false })
		require.NoError(t, create("slow", one, two), "the retry joins")

		w.host.update(func(h *fakeHost) { h.thawEarly = true })
		requireCode(t, codes.Aborted, create("thawed", one, two)) // -25: the freeze did not hold
		require.Len(t, w.snapshots(t), 3, "-06: nothing of it is kept")
		w.host.update(func(h *fakeHost) {
			h.thawEarly, h.failSnapshot = false, stepFailure("the pool is full", fsm.NoCapacity)
		})
		requireCode(t, codes.ResourceExhausted, create("thawed", one, two)) // -23, -24
		w.host.update(func(h *fakeHost) { h.failSnapshot = stepFailure("the filesystem cannot be frozen", fsm.Precondition) })
		requireCode(t, codes.FailedPrecondition, create("thawed", one, two)) // -22
		require.Len(t, w.snapshots(t), 3, "-06")
		w.host.update(func(h *fakeHost) { h.failSnapshot = nil })
		require.NoError(t, create("thawed", one, two), "the retry begins another attempt")
		require.Len(t, w.snapshots(t), 5)
	})
}

// CSI-GRP-CreateVolumeGroupSnapshot-08, CSI-EXT-GetSnapshot-02,
// CSI-CTRL-CreateSnapshot-24, CSI-CTRL-DeleteSnapshot-05, -08: members.
func TestMembersOfAGroup(t *testing.T) {
	w := newEnv(t)
	g := w.createGroup(t, "g", w.create(t, "one"), w.create(t, "two"))
	for i, id := range membersOf(g) {
		got, err := w.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
		require.NoError(t, err)
		require.True(t, proto.Equal(g.GetSnapshots()[i], got.GetSnapshot()))
		w.create(t, "restored "+id, withSource(fromSnapshot(id)))
		for range 2 {
			_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
			requireCode(t, codes.InvalidArgument, err)
		}
	}
	require.Len(t, w.snapshots(t), 2)
}

// CSI-GRP-GetVolumeGroupSnapshot-02..06, -08, -09.
func TestGetGroup(t *testing.T) {
	w := newEnv(t)
	g := w.createGroup(t, "g", w.create(t, "one"), w.create(t, "two"))
	members := membersOf(g)
	for name, tc := range map[string]struct {
		id      string
		members []string
		want    codes.Code
	}{
		"-06: as it was made":                {g.GetGroupSnapshotId(), members, codes.OK},
		"-06: in any order":                  {g.GetGroupSnapshotId(), []string{members[1], members[0]}, codes.OK},
		"-02: an id is required":             {"", members, codes.InvalidArgument},
		"-03: so are the snapshots":          {g.GetGroupSnapshotId(), nil, codes.InvalidArgument},
		"-04: an unknown group":              {unknownGroup, members, codes.NotFound},
		"-04: before the snapshots":          {unknownGroup, nil, codes.NotFound},
		"-04: an id of another form":         {"fake", nil, codes.NotFound},
		"-05, -08, -09: one that is missing": {g.GetGroupSnapshotId(), members[:1], codes.InvalidArgument},
		"-05: one that is foreign":           {g.GetGroupSnapshotId(), append([]string{unknownSnapshot}, members...), codes.InvalidArgument},
		"-05: one twice":                     {g.GetGroupSnapshotId(), []string{members[0], members[0]}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				resp, err := w.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: tc.id, SnapshotIds: tc.members})
				requireCode(t, tc.want, err)
				require.Equal(t, tc.want == codes.OK, proto.Equal(g, resp.GetGroupSnapshot()))
			}
		})
	}
}

// CSI-GRP-DeleteVolumeGroupSnapshot-02..11, S18.
func TestDeleteGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		one, two := w.create(t, "one"), w.create(t, "two")
		g := w.createGroup(t, "g", one, two)
		members := membersOf(g)
		remove := func(id string, snapshots ...string) error {
			ctx, cancel := shortDeadline(t)
			defer cancel()
			_, err := w.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: snapshots, Secrets: mapOf("a", "b")})
			return err
		}
		for range 2 {
			requireCode(t, codes.InvalidArgument, remove(""))                                                              // -04
			requireCode(t, codes.InvalidArgument, remove(g.GetGroupSnapshotId()))                                          // -05
			requireCode(t, codes.InvalidArgument, remove(g.GetGroupSnapshotId(), members[0]))                              // -06, -09, -11
			requireCode(t, codes.InvalidArgument, remove(g.GetGroupSnapshotId(), members[0], members[1], unknownSnapshot)) // -06
			require.NoError(t, remove(unknownGroup))                                                                       // -03
			require.NoError(t, remove("fake"))                                                                             // -03
		}
		require.ElementsMatch(t, members, w.snapshots(t), "-06: nothing was deleted")

		w.host.update(func(h *fakeHost) { h.idle = true })
		ctx, cancel := shortDeadline(t)
		defer cancel()
		_, err := w.CreateVolume(ctx, createRequest("restored", withSource(fromSnapshot(members[0]))))
		requireCode(t, codes.Aborted, err)
		requireCode(t, codes.FailedPrecondition, remove(g.GetGroupSnapshotId(), members...)) // -07
		w.host.update(func(h *fakeHost) { h.idle = false })
		w.create(t, "restored", withSource(fromSnapshot(members[0])))

		w.host.update(func(h *fakeHost) { h.idle = true })
		requireCode(t, codes.Aborted, remove(g.GetGroupSnapshotId(), members...)) // -08
		require.Empty(t, w.snapshots(t))
		w.host.update(func(h *fakeHost) { h.idle = false })
		for range 2 {
			require.NoError(t, remove(g.GetGroupSnapshotId(), members...)) // -08: the retry completes
		}
		require.Zero(t, w.snapshotRecords())

		again := w.createGroup(t, "g", one, two)
		w.host.update(func(h *fakeHost) { h.idle = true })
		w.host.setReachable(t, false)
		require.NoError(t, remove(again.GetGroupSnapshotId(), membersOf(again)...), "S18: an unreachable host keeps the obligation")
	})
}

// snapshotRecords is how many snapshots are in the state, in any phase.
func (w *env) snapshotRecords() (n int) {
	_ = w.cluster.View(func(s *fsm.State) error {
		n = s.SnapshotCount()
		return nil
	})
	return n
}

// CSI-GRP-GroupControllerGetCapabilities-01, -02 and the first row of each RPC.
func TestGroupCapabilities(t *testing.T) {
	w := newEnv(t)
	resp, err := w.GroupControllerGetCapabilities(t.Context(), &csi.GroupControllerGetCapabilitiesRequest{})
	require.NoError(t, err)
	const capability = csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
	require.Len(t, resp.GetCapabilities(), 1)
	require.Equal(t, capability, resp.GetCapabilities()[0].GetRpc().GetType())
	requireMethods(t, w.controllers, csi.GroupController_ServiceDesc, func(string) bool { return true })
	requireMethods(t, w.nodes, csi.GroupController_ServiceDesc, func(string) bool { return false })

	off := group.New(w.cluster, capability)
	resp, err = off.GroupControllerGetCapabilities(t.Context(), &csi.GroupControllerGetCapabilitiesRequest{})
	require.NoError(t, err)
	require.Empty(t, resp.GetCapabilities())
	_, err = off.CreateVolumeGroupSnapshot(t.Context(), &groupReq{})
	requireCode(t, codes.Unimplemented, err)
	_, err = off.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{})
	requireCode(t, codes.Unimplemented, err)
	_, err = off.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{})
	requireCode(t, codes.Unimplemented, err)
}
