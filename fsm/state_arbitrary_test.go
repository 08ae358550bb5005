package fsm

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S70: nobody can ask for what ends every member. After each entry of a random log any
// command, with any content that its fields can hold, is decided, and every invariant holds.
func TestAnyCommandIsDecidedInAnyState(t *testing.T) {
	for seed := range seeds(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewSource(int64(1000 + seed)))
			p := newPlayer(t, &seededDice{r: r, left: 250})
			p.w = newReplicated(t, fsmpb.Protocol(1+seed%2))
			p.at, p.created = p.w.index, 1
			for p.more() {
				e := p.next()
				if p.roll(8) == 0 {
					e.cmd = envelope(p.loss())
					e.cmd.RequestId = bytesOf(fmt.Sprint("loss ", p.at), RequestIDLen)
				}
				p.w.s.Apply(e.index, e.cmd)
				require.NoError(t, p.w.s.Check(), "after %v", e.cmd)
				p.arbitrary(3)
				p.readAll()
			}
			require.Equal(t, p.w.contents(), (&world{s: restored(t, p.w.s)}).contents())
		})
	}
}

// loss is a step towards volumes whose hosts go, one after the other.
func (p *player) loss() (string, string, uint64, proto.Message) {
	v := p.volume()
	r := v.Replicas[p.roll(len(v.Replicas))]
	var body proto.Message = &fsmpb.AddReplica{VolumeId: string(v.ID)}
	actor := "admin/ann"
	switch p.roll(5) {
	case 0:
		body = &fsmpb.RemoveReplica{VolumeId: string(v.ID), NodeId: string(r.Node), HostId: string(r.Host)}
	case 1:
		body = &fsmpb.LoseNode{NodeId: string(r.Node), HostId: string(r.Host), Reason: "burnt"}
	case 2:
		body = &fsmpb.SetNodeReachable{NodeId: string(r.Node), HostId: string(r.Host), Reachable: p.roll(2) == 0}
	case 3:
		again := p.register()
		actor, body = "node/"+again.NodeId, again
	}
	return actor, "", p.at - 1, body
}

// arbitrary applies commands of any content to copies of the state.
func (p *player) arbitrary(n int) {
	ids := p.ids()
	for i := range n {
		_, body := p.choose()
		rare := 6 // most fields of a sensible command stay as they are
		if p.roll(3) == 0 {
			body, rare = new(fsmpb.Command).ProtoReflect().NewField(oneof.Fields().Get(p.roll(oneof.Fields().Len()))).Message().Interface(), 1
		}
		p.fill(body.ProtoReflect(), ids, rare, 0)
		actor := "admin/ann"
		if c, ok := body.(interface{ GetNodeId() string }); ok && p.roll(4) > 0 {
			actor = "node/" + c.GetNodeId()
		}
		cmd := envelope(actor, fmt.Sprint("any ", p.at, i), p.at, body)
		if LeastLevel(cmd) > MaxFeatureLevel {
			continue // a leader does not propose it
		}
		fork := p.w.s.Fork()
		require.NotPanics(p.w.t, func() { fork.Apply(p.at+1, cmd) }, "%v", cmd)
		require.NoError(p.w.t, fork.Check(), "after %v", cmd)
	}
}

// readAll asks the state all that sessions and operators ask of it.
func (p *player) readAll() {
	s := p.w.s
	require.NotPanics(p.w.t, func() {
		for n := range s.Nodes() {
			_ = slices.Collect(s.DesiredVolumes(n.ID))
			_ = slices.Collect(s.DesiredSnapshots(n.ID))
			s.IfStopped(Failure{Nodes: []NodeID{n.ID}, NoQuorum: true})
		}
		for v := range s.Volumes("") {
			s.ReplicationCondition(v)
			s.FormerPrimaryIsolated(v.ID)
			s.PrimaryHost(v)
			s.PromotionDone(v, "n1")
			s.VolumeView(v).Condition(v)
			for _, n := range []NodeID{"n1", "n2", ""} {
				s.UnpublishProgress(controller, v.ID, n)
				s.VolumeIsolation(v.ID, n)
				_, _, _ = s.VolumePublication(v.ID, n, Epoch{})
			}
			_, _ = s.VolumeCreation(v.ID)
			_, _ = s.VolumeExpansion(v.ID, v.Size)
			_, _ = s.VolumeModification(v.ID)
			_, _ = s.VolumeRemoval(v.ID)
		}
		for n := range s.Snapshots("") {
			_, _ = s.SnapshotCreation(n.ID)
			_, _ = s.SnapshotRemoval(n.ID)
			_, _ = s.SnapshotForMap(n.ID, n.ID)
		}
		for g := range s.GroupSnapshots("") {
			_, _ = s.GroupCreation(g.ID)
			_, _ = s.GroupRemoval(g.ID, g.Members)
			_, _ = s.MembersToDelete(g.ID, g.Members)
		}
		s.AvailableReplicated(nil, 2, nil)
		s.ClusterTolerance()
	})
}

// ids are texts that mean something to the state.
func (p *player) ids() []string {
	all := []string{"", "x", volumeID(9999), ext4, "xfs", TopologyKey, ZoneKey, "zn1", "/staging/0", "/target/0", "loopfile", "10.0.0.1"}
	for n := range p.w.s.Nodes() {
		all = append(all, string(n.ID), string(n.Host), n.Boot, string(n.Pools[0].ID))
	}
	for v := range p.w.s.Volumes("") {
		all = append(all, string(v.ID), string(v.ID), v.Name)
	}
	for n := range p.w.s.Snapshots("") {
		all = append(all, string(n.ID), n.Name)
	}
	for g := range p.w.s.GroupSnapshots("") {
		all = append(all, string(g.ID), g.Name)
	}
	return all
}

// fill sets one in so many of the message's fields, mostly to something that means something.
func (p *player) fill(m protoreflect.Message, ids []string, rare, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if p.roll(rare) > 0 || p.roll(6) == 0 || depth > 4 {
			continue
		}
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for range p.roll(4) {
				if f.Message() != nil {
					p.fill(list.AppendMutable().Message(), ids, rare, depth+1)
				} else {
					list.Append(p.scalar(f, ids))
				}
			}
		case f.Message() != nil:
			if p.roll(4) > 0 {
				p.fill(m.Mutable(f).Message(), ids, rare, depth+1)
			}
		default:
			m.Set(f, p.scalar(f, ids))
		}
	}
}

func (p *player) scalar(f protoreflect.FieldDescriptor, ids []string) protoreflect.Value {
	id := ids[p.roll(len(ids))]
	numbers := []uint64{0, 1, 2, 3, p.at, p.at - 1, 1 << 20, 1 << 30, math.MaxInt64, math.MaxInt64 - 1, math.MaxUint64, 1 << 63}
	n := numbers[p.roll(len(numbers))]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(id)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(bytesOf(id, []int{0, 1, 16, 32}[p.roll(4)]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(p.roll(14) - 2))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n)
	}
	panic("fill a field of kind " + f.Kind().String())
}

// S70: a fork that is only a plan gives a fault back, and answers what Apply would,
// whether a volume is found by its id or by its name.
func TestTryAnswersAsTheLogWould(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	_, err := w.s.Fork().Try(&fsmpb.Command{})
	require.ErrorIs(t, err, ErrFault)
	plan := w.s.Fork()
	for i, body := range []proto.Message{create(1), create(2), create(2), &fsmpb.DeleteVolume{VolumeId: volumeID(1)}, create(1), create(3)} {
		cmd := envelope("controller/c1", fmt.Sprint("tried ", i), w.index, body)
		out, err := plan.Try(cmd)
		require.NoError(t, err)
		w.index++
		require.True(t, proto.Equal(w.s.Apply(w.index, cmd).Outcome, out), "%v", body)
		require.Equal(t, w.s.Hash(), plan.Hash())
	}
}
