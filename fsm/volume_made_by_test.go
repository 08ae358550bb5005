package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// An operator's volume says so, from feature level 3 on; one that an orchestrator asked for does not. A repeated create
// changes nothing of it, and from that level on one of the other kind does not join it.
func TestAVolumeSaysWhichOperatorMadeIt(t *testing.T) {
	for name, tc := range map[string]struct {
		level       uint32
		actor, want string
	}{
		"an operator":               {level: Level3, actor: "admin/alice", want: "admin/alice"},
		"an orchestrator":           {level: Level3, actor: "controller/c1"},
		"an operator below level 3": {level: Level2, actor: "admin/alice"},
	} {
		t.Run(name, func(t *testing.T) {
			s, index := New(), uint64(0)
			try := func(cmd *fsmpb.Command) error {
				index++
				cmd.RequestId, cmd.SchemaVersion = fmt.Appendf(nil, "request %8d", index), LeastLevel(cmd)
				return Err(s.Apply(index, cmd).Outcome)
			}
			apply := func(cmd *fsmpb.Command) { require.NoError(t, try(cmd)) }
			apply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
				ClusterId: "cluster", IncarnationId: make([]byte, 16), FeatureLevel: tc.level}}})
			apply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
				NodeId: "n1", HostId: "host", BootId: "boot", FeatureLevel: tc.level,
				Pools: []*fsmpb.Pool{{PoolId: "pool", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
			id := VolumeID("hf-00000000-0000-4000-8000-000000000001")
			for _, actor := range []string{tc.actor, tc.actor, "admin/bob", "controller/c1"} {
				create := &fsmpb.Command{Actor: actor, Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{VolumeId: string(id), Name: "data",
					Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}}}}}
				err := try(create)
				if tc.level < Level3 || byAdmin(actor, nil) == (tc.want != "") {
					require.NoError(t, err, actor)
				} else {
					require.ErrorContains(t, err, "exists", actor)
					_, rej := s.AnswerExpired(create)
					require.NotNil(t, rej)
					require.Equal(t, Incompatible, rej.Reason)
				}
				v, found := s.Volume(id)
				require.True(t, found)
				require.Equal(t, tc.want, v.MadeBy)
			}
		})
	}
}

// An imported volume is its operator's: plain hosts may mount it.
func TestAnImportedVolumeSaysWhoImportedIt(t *testing.T) {
	w := newLVMWorld(t)
	require.Equal(t, admin, w.importReady(1).MadeBy)
}

// A publication is its maker's: who ends it would end what the other relies on.
func TestOperatorsAndOrchestratorsShareNoPublication(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second string
		joins         bool
	}{
		"an orchestrator's, and an admin":     {controller, admin, false},
		"an orchestrator's, and an operator":  {controller, "operator/ann", false},
		"an operator's, and an orchestrator":  {"operator/ann", controller, false},
		"an operator's, and an admin":         {"operator/ann", admin, true},
		"an orchestrator's, and the next one": {controller, controllerB, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.ready(1, create(1))
			publish := publish(1, string(v.Replicas[0].Node))
			w.twice(tc.first, publish)
			for range 2 {
				out := w.apply(tc.second, publish)
				require.Equal(t, tc.joins, out.GetRejection() == nil, out)
				if !tc.joins {
					require.Equal(t, InUse, reasonOf(out))
				}
			}
			kept, _ := restored(t, w.s).Volume(v.ID)
			require.Equal(t, tc.first != controller, kept.Publications()[0].MadeBy == tc.first)
			require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
		})
	}
}

// Who unpublishes ends what its own kind published, and of the other kind nothing, which is done all the same; an admin ends both.
func TestOperatorsAndOrchestratorsEndNoPublicationOfEachOther(t *testing.T) {
	const operator = "operator/ann"
	for name, tc := range map[string]struct {
		maker, ender string
		ends         bool
	}{
		"an orchestrator's, by an operator":  {controller, operator, false},
		"an orchestrator's, by an admin":     {controller, admin, true},
		"an orchestrator's, by the next one": {controller, controllerB, true},
		"an operator's, by an orchestrator":  {operator, controller, false},
		"an admin's, by an orchestrator":     {admin, controller, false},
		"an operator's, by an operator":      {operator, operator, true},
		"an admin's, by an operator":         {admin, operator, true},
		"an operator's, by an admin":         {operator, admin, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.ready(1, create(1))
			node := string(v.Replicas[0].Node)
			published := w.ok(tc.maker, publish(1, node))
			w.ok("node/"+node, w.stage(1, node, 1))
			kept := w.volume(1).Publications()
			for _, c := range []*fsmpb.UnpublishVolume{
				{VolumeId: string(v.ID), NodeId: node, Epoch: published.GetEpoch()}, {VolumeId: string(v.ID), NodeId: node}, {VolumeId: string(v.ID)},
			} {
				_, rej := w.s.AnswerExpired(through(w.site, envelope(tc.ender, "late", 1, c)))
				require.Equal(t, tc.ends && len(w.volume(1).Publications()) > 0, rej != nil, "what is not ended is answered")
				w.twice(tc.ender, c)
				if tc.ends {
					kept = nil
				}
				require.Equal(t, kept, w.volume(1).Publications())
				require.Empty(t, w.s.UnpublishProgress(tc.ender, v.ID, NodeID(node)).Held, "nothing is waited for")
			}
		})
	}
}

// Below level 3 nobody knows who published.
func TestBelowLevel3EveryPublicationIsAnybodys(t *testing.T) {
	two := newWorldAt(t, Level2)
	v := two.ready(1, create(1))
	two.ok(admin, publish(1, "n1"))
	two.twice(controller, &fsmpb.UnpublishVolume{VolumeId: string(v.ID), NodeId: "n1"})
	require.Empty(t, two.volume(1).Publications())
}
