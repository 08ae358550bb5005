package policy

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// scan is a poll with the degraded volumes at that time.
type scan struct {
	pollResult
	volumes   []degradedVolume
	resyncing int
}

// repeatScan repeats a scan over [from, to] seconds.
func repeatScan(from, to int, newResult func(int) pollResult, volumes ...degradedVolume) (all []scan) {
	for s := from; s <= to; s++ {
		all = append(all, scan{pollResult: newResult(s), volumes: volumes})
	}
	return all
}

func withResyncing(resyncing int, in []scan) []scan {
	for i := range in {
		in[i].resyncing = resyncing
	}
	return in
}

// commandStrings describes the commands.
func commandStrings(commands []*fsmpb.Command) (all []string) {
	for _, c := range commands {
		if r := c.GetRemoveReplica(); r != nil {
			all = append(all, "remove from "+r.GetVolumeId()+" on "+r.GetNodeId()+" "+r.GetHostId())
		}
		if a := c.GetAddReplica(); a != nil {
			all = append(all, "add to "+a.GetVolumeId())
		}
	}
	return all
}

func TestAReplicaIsReplacedAfterReplaceAfter(t *testing.T) {
	absent := degradedVolume{volume: "v1", node: "n2", host: "h2"}
	other := degradedVolume{volume: "v1", node: "n1", host: "h1"}
	risky := degradedVolume{volume: "v1", node: "n2", host: "h2", writeRisk: "the volume is published there"}
	noReplica := degradedVolume{volume: "v1"}
	remove, add := []string{"remove from v1 on n2 h2"}, []string{"add to v1"}
	many := []degradedVolume{{volume: "a"}, {volume: "b", node: "n2", host: "h2"}, {volume: "c"}, {volume: "d"}, {volume: "e"}, {volume: "f"}}
	concat := func(parts ...[]scan) (all []scan) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		scans []scan
		full  bool // the state refuses it
		off   bool
		want  []string // of the last scan
	}{
		"unreachable for the time":                    {scans: repeatScan(0, 60, pollWithSession, absent), want: remove},
		"unreachable for less":                        {scans: repeatScan(0, 59, pollWithSession, absent)},
		"off by zero":                                 {scans: repeatScan(0, 600, pollWithSession, absent), off: true},
		"it was back in between":                      {scans: concat(repeatScan(0, 58, pollWithSession, absent), repeatScan(59, 59, pollWithSession), repeatScan(60, 110, pollWithSession, absent))},
		"another host is unreachable now":             {scans: concat(repeatScan(0, 59, pollWithSession, other), repeatScan(60, 110, pollWithSession, absent))},
		"there is no replica at all for the time":     {scans: repeatScan(0, 60, pollWithSession, noReplica), want: add},
		"the new one comes at once after the old one": {scans: concat(repeatScan(0, 60, pollWithSession, absent), repeatScan(61, 61, pollWithSession, noReplica)), want: add},
		"its host is unreachable again: the time restarts": {
			scans: concat(repeatScan(0, 60, pollWithSession, noReplica), repeatScan(61, 110, pollWithSession, absent))},
		"nothing while the node may still write":        {scans: repeatScan(0, 600, pollWithSession, risky)},
		"and once nothing suggests that it writes":      {scans: concat(repeatScan(0, 70, pollWithSession, risky), repeatScan(71, 71, pollWithSession, absent)), want: remove},
		"there is no room elsewhere: the replica stays": {scans: repeatScan(0, 60, pollWithSession, absent), full: true},
		"it is asked again a minute later only":         {scans: repeatScan(0, 119, pollWithSession, absent)},
		"and then it is":                                {scans: repeatScan(0, 120, pollWithSession, absent), want: remove},
		"S27: a new leader counts from zero": {scans: concat(repeatScan(0, 59, pollWithSession, absent),
			repeatScan(60, 110, func(s int) pollResult { return inTerm(2, pollWithSession(s)) }, absent))},
		"a leader that was stopped looked at nothing": {scans: concat(repeatScan(0, 10, pollWithSession, absent), repeatScan(600, 600, pollWithSession, absent))},
		"without a majority nothing is counted": {
			scans: repeatScan(0, 600, func(s int) pollResult { return withVoters(1, pollWithSession(s)) }, absent)},
		"a few at once":       {scans: repeatScan(0, 60, pollWithSession, many...), want: []string{"add to a", "add to c", "add to d", "add to e"}},
		"fewer while some go": {scans: withResyncing(3, repeatScan(0, 60, pollWithSession, many...)), want: []string{"add to a"}},
		"none while many go":  {scans: withResyncing(4, repeatScan(0, 60, pollWithSession, many...))},
	} {
		t.Run(name, func(t *testing.T) {
			m := replicaReplacer{replaceAfter: time.Minute, clock: pollClock{interval: time.Second}}
			if tc.off {
				m.replaceAfter = 0
			}
			dryRun := func(commands ...*fsmpb.Command) error {
				require.NotNil(t, commands[len(commands)-1].GetAddReplica(), "room for the new one is checked first")
				if tc.full {
					return errors.New("no room")
				}
				return nil
			}
			var got []*fsmpb.Command
			for _, l := range tc.scans {
				got = m.decide(l.pollResult, l.volumes, l.resyncing, dryRun)
			}
			require.Equal(t, tc.want, commandStrings(got))
		})
	}
}

// TestWhatSuggestsThatANodeStillWrites: S8. The replication network may
// work where the controllers' does not.
func TestWhatSuggestsThatANodeStillWrites(t *testing.T) {
	const n1, n2 = fsm.NodeID("n1"), fsm.NodeID("n2")
	connected := fsm.ReplicaObservation{Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED}
	for name, tc := range map[string]struct {
		change func(v *fsm.Volume, absent, healthy *fsm.Replica)
		want   string
	}{
		"nothing: it was idle": {change: func(*fsm.Volume, *fsm.Replica, *fsm.Replica) {}},
		"nothing: the log outdated it": {change: func(v *fsm.Volume, absent, _ *fsm.Replica) {
			v.Teardowns, absent.Outdated, absent.Observed.Primary = []fsm.Teardown{{Node: n2, Host: "h2"}}, true, true
		}},
		"the other replica is connected to it": {want: "connected", change: func(_ *fsm.Volume, absent, healthy *fsm.Replica) {
			healthy.Observed, absent.Outdated = connected, true
		}},
		"the volume is published there": {want: "published", change: func(v *fsm.Volume, absent, _ *fsm.Replica) {
			v.Phase, absent.Outdated = fsm.Ready{Publications: []fsm.Publication{{Node: n2, Host: "h2"}}}, true
		}},
		"it holds the grant": {want: "grant", change: func(v *fsm.Volume, _, _ *fsm.Replica) {
			v.Replication.Primary = &fsm.PrimaryGrant{Node: n2, Host: "h2"}
		}},
		"its teardown is pending": {want: "did not report", change: func(v *fsm.Volume, _, _ *fsm.Replica) {
			v.Teardowns = []fsm.Teardown{{Node: n2, Host: "h2"}}
		}},
		"it was primary at its last report": {want: "last report", change: func(_ *fsm.Volume, absent, _ *fsm.Replica) {
			absent.Observed.Primary = true
		}},
		"not that the other one writes": {change: func(v *fsm.Volume, _, _ *fsm.Replica) {
			v.Phase = fsm.Ready{Publications: []fsm.Publication{{Node: n1, Host: "h1"}}}
			v.Replication.Primary = &fsm.PrimaryGrant{Node: n1, Host: "h1"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			absent := fsm.Replica{Host: "h2", ReplicaSync: &fsm.ReplicaSync{}}
			healthy := fsm.Replica{Host: "h1", ReplicaSync: &fsm.ReplicaSync{UpToDate: true}}
			v := &fsm.Volume{Phase: fsm.Ready{}, Replication: &fsm.Replication{ReplicaCount: 2}}
			tc.change(v, &absent, &healthy)
			for range 2 {
				got := writeRisk(v, n2, &absent, &healthy)
				require.Contains(t, got, tc.want)
				require.Equal(t, tc.want == "", got == "")
			}
		})
	}
}
