package certify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// written is what a host wrote and had afterwards: 40 blocks in 16 places.
func written() Write {
	return Write{Host: "n1", Volume: "hf-1", Class: "fast", ReadOn: "n1", Acknowledged: Acknowledged{Number: 40, Longest: 70 * time.Millisecond},
		ReadBack: ReadBack{Read: 16, Highest: 41}}
}

func TestWhatWasAcknowledgedIsReadBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Write)
		says   string
	}{
		"all is there":             {func(*Write) {}, ""},
		"fewer than places":        {func(w *Write) { w.Number, w.ReadBack = 3, ReadBack{Read: 3, Highest: 3} }, ""},
		"nothing was acknowledged": {func(w *Write) { w.Number = 0 }, "no block was acknowledged"},
		"a block is missing":       {func(w *Write) { w.ReadBack.Missing, w.ReadBack.Says = 1, []string{"block 39"} }, "1 acknowledged blocks are missing: block 39"},
		"not all were read":        {func(w *Write) { w.ReadBack.Read = 15 }, "15 blocks up to 41 were read back"},
		"the last is not there":    {func(w *Write) { w.ReadBack.Highest = 39 }, "16 blocks up to 39 were read back"},
	} {
		t.Run(name, func(t *testing.T) {
			w := written()
			tc.change(&w)
			w.Judge(16)
			require.Equal(t, tc.says == "", w.Verified)
			require.Contains(t, w.Why, tc.says)
		})
	}
}

func TestAReportWithoutTheWritesOfItsPlanIsFailed(t *testing.T) {
	for name, tc := range map[string]struct {
		writes func() []Write
		result string
		says   string
	}{
		"verified":     {func() []Write { w := written(); w.Judge(16); return []Write{w} }, Passed, "40 writes were acknowledged, with pauses of up to 70ms, and 1 of 1 volumes"},
		"not verified": {func() []Write { w := written(); w.ReadBack.Missing = 1; w.Judge(16); return []Write{w} }, Failed, "NOT VERIFIED: 1 acknowledged"},
		"not there":    {func() []Write { return nil }, Failed, "0 of 1 volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := report()
			r.Plan.Writes, r.Writes = &WritePlan{Hosts: []string{"n1"}}, tc.writes()
			r.Conclude()
			require.Equal(t, tc.result, r.Result)
			require.Contains(t, r.Summary(), tc.says)
		})
	}
}

func TestWritesAreOnSoManyHosts(t *testing.T) {
	p := &Plan{Hosts: []string{"a", "b", "c", "d"}}
	why := func(host string) string {
		if host == "a" {
			return "it is cordoned"
		}
		return ""
	}
	require.NoError(t, p.Write(WritePlan{SizeBytes: 64 << 20, Namespace: "holdfast", Class: "fast"}, 2, why))
	require.Equal(t, []string{"b", "c"}, p.Writes.Hosts)
	require.Equal(t, []string{"a: it is cordoned", "d: 2 are enough"}, p.Writes.LeftOut)
	require.EqualValues(t, 8192, p.Writes.Blocks())
	require.Contains(t, p.Text(), "a second pod on the same host reads every acknowledged block back")
	require.NotContains(t, Limits(p)[2], "nothing was mounted")
	require.Contains(t, p.Text(), "no process is stopped")
	p.RestartPlugins()
	require.Contains(t, p.Text(), "the node plugins of the hosts b, then c are restarted in the same way")
	require.NotContains(t, p.Text(), "no process is stopped")
	require.Contains(t, Limits(p)[0], "and node plugins were stopped and started anew")
	require.Equal(t, 2, p.Disturbances())
	require.ErrorContains(t, (&Plan{Hosts: []string{"a"}}).Write(WritePlan{}, 2, why), "a: it is cordoned")
}

func TestNothingReplicatedIsWrittenOnAHostWithoutReplicas(t *testing.T) {
	f := healthy()
	f.Nodes[1].ReplicationAddress = "10.0.0.2"
	stopped := &adminpb.Node{Id: "n3", ReplicationAddress: "10.0.0.3", NoNewReplicas: true, Pools: f.Nodes[0].Pools}
	f.Nodes = append(f.Nodes, stopped)
	for host, says := range map[string]string{"n1": "no replicas", "n2": "", "n3": "no replicas", "n4": "no host of its name"} {
		why := (&Plan{}).NotToWriteOn(f, host, &WritePlan{Replicated: true, SizeBytes: MinWriteSize})
		require.Equal(t, says == "", why == "", host)
		require.Contains(t, why, says)
		require.Equal(t, host == "n4", (&Plan{}).NotToWriteOn(f, host, &WritePlan{SizeBytes: MinWriteSize}) != "", host)
	}
	require.NotEmpty(t, (&Plan{}).NotToWriteOn(f, "n2", &WritePlan{Replicated: true, SizeBytes: 1 << 50}), "there is no room")
}
