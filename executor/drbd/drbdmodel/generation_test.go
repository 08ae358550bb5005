package drbdmodel

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// captured reads what the kernel of a guest said of its metadata, in drbdsetup get-gi's order:
// current, bitmap and history UUIDs, then the flags.
func captured(t *testing.T, name string) (g Generations, m Metadata) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", name+".gi"))
	require.NoError(t, err)
	fields := strings.Split(strings.TrimSpace(string(text)), ":")
	require.Len(t, fields, 11)
	var uuids [4]uint64
	for i := range uuids {
		uuids[i], err = strconv.ParseUint(fields[i], 16, 64)
		require.NoError(t, err)
		uuids[i] &^= 1 // the flag that says primary
	}
	g = Generations{Current: uuids[0], Bitmap: uuids[1], History: [historySlots]uint64{uuids[2], uuids[3]}}
	return g, Metadata{Generations: g, Exist: true, Consistent: fields[4] == "1", WasOutdated: fields[5] == "0" && fields[4] == "1", PeerOutdated: fields[9] == "1", Crashed: fields[10] == "1"}
}

// The pairs of captures that met each other in the guests, and some that could have.
func TestCompareOfCapturedGenerations(t *testing.T) {
	for _, tc := range []struct {
		own, peer string
		want      Comparison
		rule      int
	}{
		{"connected_primary", "connected_secondary", Equal, 40},
		{"sync_source", "sync_target", Source, 70},
		{"sync_target", "sync_source", Target, 50},
		{"primary_alone", "standalone_uptodate", Source, 70},
		{"outdated_standalone", "taken_over", Target, 50}, // DESIGN.md: the outdated replica connects
		{"consistent_promoted", "consistent_standalone", Source, 70},
		{"peer_primary_diskless", "peer_diskless", Source, 70}, // an I/O error below the primary
		{"taken_over", "standalone_uptodate", SourceAll, 80},
		{"standalone_uptodate", "taken_over", TargetAll, 60},
		{"consistent_promoted", "primary_alone", SourceAll, 80},
		{"sync_source", "standalone_uptodate", Unrelated, 100},
	} {
		own, _ := captured(t, tc.own)
		peer, _ := captured(t, tc.peer)
		got, rule := Compare(own, peer, false, false)
		require.Equal(t, []int{int(tc.want), tc.rule}, []int{int(got), rule}, "%s meets %s", tc.own, tc.peer)
		if opposite, _ := Compare(peer, own, false, false); tc.want > SplitBrain {
			require.Equal(t, -tc.want, opposite, "%s meets %s", tc.peer, tc.own)
		}
	}
}

func TestCompareOfEachRule(t *testing.T) {
	created := Generations{Current: JustCreated}
	for name, tc := range map[string]struct {
		own, peer               Generations
		ownCrashed, peerCrashed bool
		want                    Comparison
		rule                    int
	}{
		"both were just created":                  {created, created, false, false, Equal, 10},
		"new metadata receive everything":         {created, Generations{Current: 8}, false, false, TargetAll, 20}, // DESIGN.md: -2 by rule 20
		"new metadata are sent everything":        {Generations{Current: 8}, created, false, false, SourceAll, 30},
		"neither crashed":                         {Generations{Current: 8}, Generations{Current: 8}, false, false, Equal, 40},
		"it crashed as a primary":                 {Generations{Current: 8}, Generations{Current: 8}, true, false, Source, 40},
		"its peer crashed as a primary":           {Generations{Current: 8}, Generations{Current: 8}, false, true, Target, 40},
		"its peer left it behind":                 {Generations{Current: 8}, Generations{Current: 10, Bitmap: 8}, false, false, Target, 50},
		"its peer left it behind long ago":        {Generations{Current: 8}, Generations{Current: 12, History: [2]uint64{10, 8}}, false, false, TargetAll, 60},
		"it left its peer behind":                 {Generations{Current: 10, Bitmap: 8}, Generations{Current: 8}, false, false, Source, 70},
		"it left its peer behind long ago":        {Generations{Current: 12, History: [2]uint64{10, 8}}, Generations{Current: 8}, false, false, SourceAll, 80},
		"both went on from one generation":        {Generations{Current: 10, Bitmap: 8}, Generations{Current: 12, Bitmap: 8}, false, false, SplitBrain, 90},
		"both went on from one generation before": {Generations{Current: 10, History: [2]uint64{8}}, Generations{Current: 12, History: [2]uint64{14, 8}}, false, false, SplitBrain, 100},
		"nothing in common":                       {Generations{Current: 10, Bitmap: 6}, Generations{Current: 12}, false, false, Unrelated, 100},
	} {
		got, rule := Compare(tc.own, tc.peer, tc.ownCrashed, tc.peerCrashed)
		require.Equal(t, []int{int(tc.want), tc.rule}, []int{int(got), rule}, name)
	}
}

// The synchronisation between sync_source and sync_target left what crashed_attached has.
func TestTheHistoryAfterASynchronisationIsTheKernels(t *testing.T) {
	p := New()
	for i, name := range []string{"sync_source", "sync_target"} {
		_, m := captured(t, name)
		m.PeerOutdated = false // as the two find it again
		p.replicas[i].metadata = m
		p.Attach(i)
		p.Connect(i, false)
	}
	require.Equal(t, inconsistent, p.Observe(1).Disk)
	p.Handshake()
	require.Equal(t, syncTarget, p.Observe(1).Connection)
	for i, name := range []string{"sync_source", "sync_target"} {
		during, flags := captured(t, name)
		m := p.Observe(i).Metadata
		require.Equal(t, during, m.Generations)
		require.Equal(t, []bool{flags.Consistent, flags.PeerOutdated, flags.Crashed}, []bool{m.Consistent, m.PeerOutdated, m.Crashed})
	}
	p.FinishSync()
	after, _ := captured(t, "crashed_attached")
	require.Equal(t, after, p.Observe(0).Metadata.Generations)
	require.Equal(t, after, p.Observe(1).Metadata.Generations)
}

// The flags of the metadata say what a disk is called when it is attached.
func TestAnAttachedDiskIsWhatItsCapturedFlagsSay(t *testing.T) {
	for name, want := range map[string]any{
		"primary_alone": upToDate, "taken_over": upToDate, // their peers were outdated: they would be promoted unasked
		"consistent_standalone": consistent, "crashed_attached": consistent, "outdated_standalone": consistent, "connected_secondary": consistent,
		"sync_target": inconsistent,
	} {
		p := New()
		_, p.replicas[0].metadata = captured(t, name)
		p.Attach(0)
		require.Equal(t, want, p.Observe(0).Disk, name)
	}
}
