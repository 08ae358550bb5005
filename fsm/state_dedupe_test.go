package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S4: the same request has its effect once and gets its first answer, accepted or
// refused, until the window is over; then it is not applied.
func TestS4_ARequestIsAppliedOnce(t *testing.T) {
	w := newWorld(t)
	cmd := envelope(controller, "the request", w.index, create(1))
	first := w.applyEnvelope(cmd)
	require.NoError(t, Err(first))
	w.report("n1", deviceCreated(1, gib))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.report("n1", deviceGone(1))

	require.True(t, proto.Equal(first, w.applyEnvelope(cmd)), "it would make the volume again")
	require.Zero(t, w.s.VolumeCount())
	other := proto.Clone(cmd).(*fsmpb.Command)
	other.Actor = "controller/c2"
	require.NotEqual(t, first.GetIndex(), w.applyEnvelope(other).GetIndex(), "a request id is scoped to its actor")

	refused := envelope(controller, "refused", w.index, publish(9, "n1"))
	no := w.applyEnvelope(refused)
	require.Equal(t, NotFound, reasonOf(no))
	require.True(t, proto.Equal(no, w.applyEnvelope(refused)))
}

func TestS4_BeyondTheWindowARequestIsExpired(t *testing.T) {
	for name, tc := range map[string]struct {
		proposed, applied, retried uint64
		want                       Reason
	}{
		"at the window it is remembered":     {proposed: 10, applied: 11, retried: 10 + DedupeWindow},
		"applied late it is remembered late": {proposed: 10, applied: 5000, retried: 5000 + DedupeWindow},
		"beyond it, it is expired":           {proposed: 10, applied: 11, retried: 12 + DedupeWindow, want: Expired},
		"expired for ever":                   {proposed: 10, applied: 11, retried: 10 * DedupeWindow, want: Expired},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cmd := envelope(controller, "the request", tc.proposed, create(1))
			first := w.s.Apply(tc.applied, cmd).Outcome
			before := w.contents()
			second := w.s.Apply(tc.retried, cmd).Outcome
			require.Equal(t, tc.want, reasonOf(second))
			if tc.want == 0 {
				require.True(t, proto.Equal(first, second))
			}
			require.Equal(t, before, w.contents())
			require.NoError(t, w.s.Check())
		})
	}
	t.Run("a first proposal that lingered is expired as well", func(t *testing.T) {
		w := newWorld(t)
		out := w.s.Apply(DedupeWindow+11, envelope(controller, "late", 10, create(1))).Outcome
		require.Equal(t, Expired, reasonOf(out))
		require.Zero(t, w.s.VolumeCount())
	})
}

func TestS4_TheMemoryOfAnswersIsBounded(t *testing.T) {
	w := newWorld(t)
	for n := range 40 {
		w.s.Apply(100+uint64(n), envelope(controller, fmt.Sprint("r", n), 99, &fsmpb.DeleteVolume{}))
	}
	require.Equal(t, 42, w.s.answers.Len())
	w.s.Apply(120+DedupeWindow, envelope(controller, "last", 119+DedupeWindow, &fsmpb.DeleteVolume{}))
	require.Equal(t, 21, w.s.answers.Len())
	require.NoError(t, w.s.Check())
}

func TestAnEnvelopeIsWellFormed(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*fsmpb.Command){
		"no request id":      func(c *fsmpb.Command) { c.RequestId = nil },
		"a short request id": func(c *fsmpb.Command) { c.RequestId = c.RequestId[:15] },
		"a long actor":       func(c *fsmpb.Command) { c.Actor = string(make([]byte, 300)) },
	} {
		cmd := envelope(controller, name, w.index, create(1))
		change(cmd)
		require.Equal(t, Invalid, reasonOf(w.applyEnvelope(cmd)), name)
	}
}

func TestTheClockNeverGoesBack(t *testing.T) {
	w := newWorld(t)
	at := w.s.Cluster().Time
	cmd := envelope(controller, "behind", w.index, create(1))
	cmd.ProposedAt = at.Add(-time.Hour).UnixNano()
	w.applyEnvelope(cmd)
	require.Equal(t, at, w.s.Cluster().Time)
	require.Equal(t, at, w.volume(1).Operation.Started)
}

func TestAFaultStopsTheMember(t *testing.T) {
	w := newWorld(t)
	unknown := envelope(controller, "x", 0, create(1))
	unknown.Body = nil
	require.Panics(t, func() { w.s.Apply(10, unknown) })
	newer := envelope(controller, "x", 0, create(1))
	newer.SchemaVersion = MaxFeatureLevel + 1
	require.Panics(t, func() { w.s.Apply(10, newer) })
	require.Panics(t, func() { w.s.Apply(w.index, envelope(controller, "x", 0, create(1))) }, "an index that does not grow")
}

func TestNothingComesBeforeTheBootstrap(t *testing.T) {
	w := &world{t: t, s: New()}
	w.rejected(Precondition, controller, create(1))
	w.rejected(Precondition, "node/n1", register("n1"))
	w.rejected(Invalid, admin, &fsmpb.Bootstrap{ClusterId: "cluster-1", FeatureLevel: MaxFeatureLevel})
	w.rejected(Invalid, admin, &fsmpb.Bootstrap{FeatureLevel: MaxFeatureLevel, IncarnationId: make([]byte, 16)})
	w.rejected(Unsupported, admin, &fsmpb.Bootstrap{ClusterId: "cluster-1", FeatureLevel: 0, IncarnationId: make([]byte, 16)})
	w.twice(admin, bootstrap())
	require.EqualValues(t, 1, w.s.Cluster().Incarnation)
	w.rejected(Incompatible, admin, &fsmpb.Bootstrap{ClusterId: "cluster-2", FeatureLevel: MaxFeatureLevel, IncarnationId: make([]byte, 16)})
	w.ok("node/n1", register("n1"))
}
