package session

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// look is what one exchange shows of the replicated volumes.
type look struct {
	exchange
	volumes []impaired
	busy    int
}

// looks repeats a look over [from, to] seconds.
func looks(from, to int, make func(int) exchange, volumes ...impaired) (all []look) {
	for s := from; s <= to; s++ {
		all = append(all, look{exchange: make(s), volumes: volumes})
	}
	return all
}

func whileBusy(busy int, in []look) []look {
	for i := range in {
		in[i].busy = busy
	}
	return in
}

// said is the commands in words.
func inWords(commands []*fsmpb.Command) (all []string) {
	for _, c := range commands {
		if r := c.GetRemoveReplica(); r != nil {
			all = append(all, "give up "+r.GetVolumeId()+" on "+r.GetNodeId()+" "+r.GetHostId())
		}
		if a := c.GetAddReplica(); a != nil {
			all = append(all, "add to "+a.GetVolumeId())
		}
	}
	return all
}

func TestAReplicaIsReplacedWhenItsHostWasAwayForTheTime(t *testing.T) {
	away := impaired{volume: "v1", node: "n2", host: "h2"}
	other := impaired{volume: "v1", node: "n1", host: "h1"}
	doubtful := impaired{volume: "v1", node: "n2", host: "h2", doubt: "the volume is published there"}
	missing := impaired{volume: "v1"}
	giveUp, add := []string{"give up v1 on n2 h2"}, []string{"add to v1"}
	many := []impaired{{volume: "a"}, {volume: "b", node: "n2", host: "h2"}, {volume: "c"}, {volume: "d"}, {volume: "e"}, {volume: "f"}}
	join := func(parts ...[]look) (all []look) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		looks []look
		full  bool // the state would not take it
		off   bool
		want  []string // of the last look
	}{
		"away for the time":                           {looks: looks(0, 60, here, away), want: giveUp},
		"away for less":                               {looks: looks(0, 59, here, away)},
		"off by zero":                                 {looks: looks(0, 600, here, away), off: true},
		"it was back in between":                      {looks: join(looks(0, 58, here, away), looks(59, 59, here), looks(60, 110, here, away))},
		"another host is away now":                    {looks: join(looks(0, 59, here, other), looks(60, 110, here, away))},
		"there is no replica at all for the time":     {looks: looks(0, 60, here, missing), want: add},
		"the new one comes at once after the old one": {looks: join(looks(0, 60, here, away), looks(61, 61, here, missing)), want: add},
		"its host is away again: the time begins anew": {
			looks: join(looks(0, 60, here, missing), looks(61, 110, here, away))},
		"standing down while the node may still write":  {looks: looks(0, 600, here, doubtful)},
		"and going on when the doubt is gone":           {looks: join(looks(0, 70, here, doubtful), looks(71, 71, here, away)), want: giveUp},
		"there is no room elsewhere: the replica stays": {looks: looks(0, 60, here, away), full: true},
		"it is asked again a minute later only":         {looks: looks(0, 119, here, away)},
		"and then it is":                                {looks: looks(0, 120, here, away), want: giveUp},
		"S27: a new leader begins anew": {looks: join(looks(0, 59, here, away),
			looks(60, 110, func(s int) exchange { return inTerm(2, here(s)) }, away))},
		"a leader that was stopped looked at nothing": {looks: join(looks(0, 10, here, away), looks(600, 600, here, away))},
		"without a majority nothing is counted": {
			looks: looks(0, 600, func(s int) exchange { return answeredBy(1, here(s)) }, away)},
		"a few at once":       {looks: looks(0, 60, here, many...), want: []string{"add to a", "add to c", "add to d", "add to e"}},
		"fewer while some go": {looks: whileBusy(3, looks(0, 60, here, many...)), want: []string{"add to a"}},
		"none while many go":  {looks: whileBusy(4, looks(0, 60, here, many...))},
	} {
		t.Run(name, func(t *testing.T) {
			m := mending{after: time.Minute, clock: tally{interval: time.Second}}
			if tc.off {
				m.after = 0
			}
			try := func(commands ...*fsmpb.Command) error {
				require.NotNil(t, commands[len(commands)-1].GetAddReplica(), "room for the new one is looked for first")
				if tc.full {
					return errors.New("no room")
				}
				return nil
			}
			var got []*fsmpb.Command
			for _, l := range tc.looks {
				got = m.decide(l.exchange, l.volumes, l.busy, try)
			}
			require.Equal(t, tc.want, inWords(got))
		})
	}
}

// TestWhatSuggestsThatANodeStillWrites: S8's doubt. The replication network may
// work where the controllers' does not.
func TestWhatSuggestsThatANodeStillWrites(t *testing.T) {
	const n1, n2 = fsm.NodeID("n1"), fsm.NodeID("n2")
	connected := fsm.ReplicaObservation{Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED}
	for name, tc := range map[string]struct {
		change func(v *fsm.Volume, away, good *fsm.ReplicaSync)
		want   string
	}{
		"nothing: it was idle": {change: func(*fsm.Volume, *fsm.ReplicaSync, *fsm.ReplicaSync) {}},
		"nothing: the log outdated it": {change: func(v *fsm.Volume, away, _ *fsm.ReplicaSync) {
			v.Teardowns, away.Outdated, away.Observed.Primary = []fsm.Teardown{{Node: n2, Host: "h2"}}, true, true
		}},
		"the other replica is connected to it": {want: "connected", change: func(_ *fsm.Volume, away, good *fsm.ReplicaSync) {
			good.Observed, away.Outdated = connected, true
		}},
		"the volume is published there": {want: "published", change: func(v *fsm.Volume, away, _ *fsm.ReplicaSync) {
			v.Phase, away.Outdated = fsm.Ready{Publications: []fsm.Publication{{Node: n2, Host: "h2"}}}, true
		}},
		"it holds the grant": {want: "grant", change: func(v *fsm.Volume, _, _ *fsm.ReplicaSync) {
			v.Replication.Primary = &fsm.PrimaryGrant{Node: n2, Host: "h2"}
		}},
		"it owes the end of a publication": {want: "did not say", change: func(v *fsm.Volume, _, _ *fsm.ReplicaSync) {
			v.Teardowns = []fsm.Teardown{{Node: n2, Host: "h2"}}
		}},
		"it was primary when it was last heard": {want: "last heard", change: func(_ *fsm.Volume, away, _ *fsm.ReplicaSync) {
			away.Observed.Primary = true
		}},
		"not that the other one writes": {change: func(v *fsm.Volume, _, _ *fsm.ReplicaSync) {
			v.Phase = fsm.Ready{Publications: []fsm.Publication{{Node: n1, Host: "h1"}}}
			v.Replication.Primary = &fsm.PrimaryGrant{Node: n1, Host: "h1"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			away, good := fsm.ReplicaSync{Host: "h2"}, fsm.ReplicaSync{Host: "h1", UpToDate: true}
			v := &fsm.Volume{Phase: fsm.Ready{}, Replication: &fsm.Replication{ReplicaCount: 2}}
			tc.change(v, &away, &good)
			for range 2 {
				got := doubt(v, n2, &away, &good)
				require.Contains(t, got, tc.want)
				require.Equal(t, tc.want == "", got == "")
			}
		})
	}
}
