package admin

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// pairsEnv is wellEnv whose hosts have addresses of their own.
func pairsEnv(t *testing.T) *env {
	w := wellEnv(t)
	for node, address := range map[string]string{"n1": "192.0.2.1", "n2": "192.0.2.2"} {
		r := w.registration(node)
		r.Replication.Address = address
		w.mustApply(&fsmpb.Command{Actor: "node/" + node, Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
	}
	return w
}

func TestHostsAreAskedToReachEveryControllerAndEachOther(t *testing.T) {
	w := pairsEnv(t)
	for i := range w.members {
		w.members[i].APIAddress = w.members[i].Name + ":9802"
	}
	w.members[2].Err = errors.New("refused")
	for range 2 {
		w.doctor()
		one, _ := w.reach.Load(fsm.NodeID("n1"))
		two, _ := w.reach.Load(fsm.NodeID("n2"))
		a, b := one.(ReachRequest), two.(ReachRequest)
		require.Equal(t, []string{"c1:9802", "c2:9802"}, a.Controllers, "one that is down is not to be reached")
		require.Equal(t, a.Controllers, b.Controllers)
		require.Len(t, a.Hosts, 1)
		require.Len(t, b.Hosts, 1)
		require.NotEqual(t, a.Hosts, b.Hosts)
		require.EqualValues(t, 65535, a.Port)
		require.Equal(t, a.Port, b.Port)
	}
}

// hostsReach has n1 reach n2 with a result, and n2 listen with one.
func hostsReach(r Reached, l *Listen) func(*env) {
	return func(w *env) {
		r.Address = "192.0.2.2:65535"
		w.nodeChecks["n1"], w.nodeChecks["n2"] = HostCheck{Hosts: []Reached{r}, Listen: &Listen{Address: "a:65535"}}, HostCheck{Listen: l}
	}
}

func TestTheRulesOfPairs(t *testing.T) {
	listens := &Listen{Address: "b:65535"}
	for name, tc := range map[string]struct {
		change func(*env)
		want   []string
		not    string
	}{
		"hosts that reach each other":      {hostsReach(Reached{}, listens), []string{"ok host n1: it reaches 1 other host where replicas connect: n2"}, "warn pair"},
		"hosts without volumes in common":  {hostsReach(Reached{Err: "no answer"}, listens), []string{"warn pair n1/n2: host n1 does not reach host n2 at 192.0.2.2, port 65535, where replicas connect: no answer; a volume with", "open TCP 7800 to 65535 from 192.0.2.1 to 192.0.2.2"}, "error pair"},
		"hosts with volumes in common":     {func(w *env) { w.replicate(1); hostsReach(Reached{Err: "no answer"}, listens)(w) }, []string{"error pair n1/n2: host n1 does not reach host n2", "they have replicas of the same volumes"}, "warn pair n1/n2: host"},
		"a firewall that refuses":          {hostsReach(Reached{Err: "connection refused", Refused: true}, listens), []string{"warn pair n1/n2: host n1 does not reach host n2"}, "it reaches 1 other host"},
		"a refusal where nothing listened": {hostsReach(Reached{Err: "connection refused", Refused: true}, &Listen{Address: "b:65535", Err: "address already in use"}), []string{"it reaches 1 other host", "warn host n2: it could not listen on b:65535", "ss -ltn"}, "warn pair n1"},
		"an older build on the other host": {hostsReach(Reached{Err: "connection refused", Refused: true}, nil), []string{"it reaches 1 other host"}, "warn pair n1"},
		"an address that is another's":     {hostsReach(Reached{Err: "no answer"}, &Listen{Address: "b:65535", Err: "cannot assign requested address", NotOurs: true}), []string{"error host n2: it does not have its replication address", "--replication-address"}, "it reaches 1 other host"},
		"a controller that is not among its own": {func(w *env) {
			w.members[2].APIAddress = "c3:9802"
			w.nodeChecks["n1"] = HostCheck{Controllers: []Reached{{Address: "c3:9802", Err: "timed out"}}}
		}, []string{"warn pair n1/c3: host n1 does not reach the controller c3 at c3:9802: timed out", "open TCP c3:9802 to the host of n1", "--api-advertise"}, "controller at c3"},
		"a member that only another one reaches": {func(w *env) {
			w.members[2].Err = errors.New("timed out")
			w.members[0].Self = true
			w.checks["id-c2"] = HostCheck{Reached: []Reached{{Address: "c3:9800"}}}
		}, []string{"error pair c1/c3: c1 does not reach c3, which c2 reaches", "open TCP c3:9800 to the host of c1"}, "pair c2/c3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := pairsEnv(t)
			tc.change(w)
			for range 2 {
				text := foundText(w.doctor())
				for _, want := range tc.want {
					require.Contains(t, text, want)
				}
				require.NotContains(t, text, tc.not)
			}
		})
	}
}

// A host that answers what it was not asked keeps nobody from the findings of the others.
func TestAHostThatReachesAnUnknownOneIsPassedOver(t *testing.T) {
	w := pairsEnv(t)
	for range 2 {
		for _, address := range []string{"x:1", "", "192.0.2.9:65535", "no address"} {
			w.nodeChecks["n1"] = HostCheck{Hosts: []Reached{{Address: address, Err: "no answer"}, {Address: "192.0.2.2:65535"}}}
			text := foundText(w.doctor())
			require.Contains(t, text, "ok host n1: it reaches 1 other host where replicas connect: n2")
			require.NotContains(t, text, "pair n1/:")
		}
	}
}

func TestHistogramsAreInWideTablesAndInJSON(t *testing.T) {
	w := wellEnv(t)
	w.checks["id-c1"] = HostCheck{Findings: []*adminpb.Diagnosis{{Severity: SeverityWarn, Found: "the disk is slow", Remedy: "replace it",
		Histogram: []*adminpb.DurationBucket{{UpToSeconds: 0.0002, Count: 7}, {UpToSeconds: 0.0004, Count: 2}, {Count: 1}}}}}
	for range 2 {
		for format, want := range map[string]string{"wide": "up to 200µs: 7, up to 400µs: 2, above 400µs: 1", "json": `"up_to_seconds": 0.0002`, "yaml": "up_to_seconds: 0.0002"} {
			var out bytes.Buffer
			require.NoError(t, Print(&out, format, w.doctor()))
			require.Contains(t, out.String(), want)
		}
		var out bytes.Buffer
		require.NoError(t, Print(&out, "table", w.doctor()))
		require.NotContains(t, out.String(), "up to")
	}
}
