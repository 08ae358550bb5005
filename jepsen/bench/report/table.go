package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// suite is one `go test -bench`.
type suite struct {
	name, pkg, bench, benchtime string
	count                       int
	duration                    string
}

var suites = []suite{
	{"state", "./fsm", "ApplyCreate|MemoryPerVolume|ForkPause|DumpEncode", "1s", 5, "about a minute"},
	{"commit", "./jepsen/bench", "Commit", "1x", 1, "about three minutes"},
	{"failover", "./jepsen/bench", "Failover|Transfer", "1x", 1, "about two minutes"},
	{"stable", "./jepsen/bench", "Stable", "1x", 1, "about a minute"},
	{"starved", "./jepsen/bench", "Starved", "1x", 1, "about six minutes"},
	{"restart", "./jepsen/bench", "Restart", "1x", 3, "about a minute"},
	{"content", "./jepsen/bench", "Content|Group", "1x", 1, "about three minutes, 20 GiB of disk"},
	{"list", "./jepsen/bench", "List", "1x", 1, "about a minute"},
	{"volumes", "./jepsen/bench", "CreateToMounted|HundredAtOnce", "1x", 3, "about a minute"},
}

// goal is one row of the table: a metric and its limit.
type goal struct {
	id, title, key string
	limit          float64
	atLeast        bool // else at most
	unit           string
}

var goals = []goal{
	{"P5", "commits/s at 64 in flight / bare hashicorp/raft, wal", "BenchmarkCommit/wal/64 xBare", 0.80, true, "x"},
	{"P5", "commits/s at 64 in flight / bare hashicorp/raft, boltdb", "BenchmarkCommit/boltdb/64 xBare", 0.80, true, "x"},
	{"", "CPU per commit / bare, wal, 64", "BenchmarkCommit/wal/64 xBareCPU", 0, false, "x"},
	{"", "commits/s, wal, 1 in flight", "BenchmarkCommit/wal/1 commits/s", 0, true, "/s"},
	{"", "commits/s, wal, 64 in flight", "BenchmarkCommit/wal/64 commits/s", 0, true, "/s"},
	{"", "commits/s, wal, 256 in flight", "BenchmarkCommit/wal/256 commits/s", 0, true, "/s"},
	{"", "commits/s, boltdb, 64 in flight", "BenchmarkCommit/boltdb/64 commits/s", 0, true, "/s"},
	{"", "p50 at 64 in flight, wal", "BenchmarkCommit/wal/64 p50-ms", 0, false, "ms"},
	{"P6", "p99 / p50 at 64 in flight, wal, quiet windows", "BenchmarkCommit/wal/64 p99/p50", 6, false, "x"},
	{"", "rounds in which the machine was quiet, wal, 64", "BenchmarkCommit/wal/64 quiet-rounds", 0, true, ""},
	{"P8", "leader killed: the longest time without a commit, of 20", "BenchmarkFailover max-s", 1.6, false, "s"},
	{"", "the same, median", "BenchmarkFailover p50-s", 0, false, "s"},
	{"P10", "planned transfer: the longest time without a commit, of 10", "BenchmarkTransfer max-ms", 150, false, "ms"},
	{"P9", "leader changes in 60 s at 256 in flight beside a CPU hog", "BenchmarkStable leader-changes", 0, false, ""},
	{"", "two busy loops a core: leader changes in 60 s, short lease, no priority", "BenchmarkStarved/short-lease leader-changes", 0, false, ""},
	{"", "the same, lease of the heartbeat timeout", "BenchmarkStarved/whole-lease leader-changes", 0, false, ""},
	{"", "the same, and a priority: the default", "BenchmarkStarved/default leader-changes", 0, false, ""},
	{"", "leader killed there: the longest time without a commit, short lease, no priority", "BenchmarkStarved/short-lease max-s", 0, false, "s"},
	{"", "the same by default", "BenchmarkStarved/default max-s", 0, false, "s"},
	{"", "leader killed there: until the next create is acknowledged, median", "BenchmarkStarved/default leader-created-p50-s", 0, false, "s"},
	{"", "the longest of 5", "BenchmarkStarved/default leader-created-max-s", 0, false, "s"},
	{"", "all controllers killed there: until the next create is acknowledged, median", "BenchmarkStarved/default all-created-p50-s", 0, false, "s"},
	{"", "the longest of 5", "BenchmarkStarved/default all-created-max-s", 0, false, "s"},
	{"", "how late a timer is there at most, of a lease of 500 ms", "BenchmarkStarved/default timer-late-ms", 0, false, "ms"},
	{"P11", "Apply of a create with topology and facts / decoding it, CPU", "BenchmarkApplyCreate/with-topology xDecode", 3.0, false, "x"},
	{"P11", "the same of a create with nothing but a name and a size", "BenchmarkApplyCreate/small xDecode", 3.0, false, "x"},
	{"P11", "allocations of Apply with its decoding, small create", "BenchmarkApplyCreate/small allocs/apply", 45, false, ""},
	{"P12", "heap per volume at 100,000, with the memory of answers", "BenchmarkMemoryPerVolume B/volume", 1000, false, "B"},
	{"P13", "pause of a snapshot at 100,000", "BenchmarkForkPause ns/op", 5e6, false, "ns"},
	{"P13", "snapshot bytes per volume", "BenchmarkDumpEncode B/volume", 250, false, "B"},
	{"P13", "extra heap / snapshot size", "BenchmarkDumpEncode xHeap", 1.0, false, "x"},
	{"P14", "restart from snapshot / from the same number of entries, 100,000", "BenchmarkRestart xReplay", 0.7, false, "x"},
	{"P15", "CreateVolume -> mounted / the floor of the same steps", "BenchmarkCreateToMounted xFloor", 2.0, false, "x"},
	{"P16", "CreateVolume -> mounted / losetup, blkid, mkfs, mount", "BenchmarkCreateToMounted xBinaries", 0.75, false, "x"},
	{"", "CreateVolume -> mounted, median", "BenchmarkCreateToMounted p50-ms", 0, false, "ms"},
	{"P17", "100 CreateVolume at once: errors", "BenchmarkHundredAtOnce errors", 0, false, ""},
	{"", "snapshot of a mounted volume with 1 GiB of data", "BenchmarkContent snapshot-1GiB-ms", 0, false, "ms"},
	{"", "snapshot with 4 GiB", "BenchmarkContent snapshot-4GiB-ms", 0, false, "ms"},
	{"", "snapshot with 16 GiB", "BenchmarkContent snapshot-16GiB-ms", 0, false, "ms"},
	{"", "clone of a snapshot with 1 GiB", "BenchmarkContent clone-1GiB-ms", 0, false, "ms"},
	{"", "clone with 4 GiB", "BenchmarkContent clone-4GiB-ms", 0, false, "ms"},
	{"", "clone with 16 GiB", "BenchmarkContent clone-16GiB-ms", 0, false, "ms"},
	{"", "online expansion, filesystem too", "BenchmarkContent expand-ms", 0, false, "ms"},
	{"", "GetMetadataDelta, of volume", "BenchmarkContent delta-GiB/s", 0, true, "GiB/s"},
	{"", "group snapshot of 8 mounted volumes", "BenchmarkGroup group-ms", 0, false, "ms"},
	{"", "the longest freeze in it", "BenchmarkGroup longest-freeze-ms", 0, false, "ms"},
	{"", "ListVolumes of 100,000: last pages of 500 / first", "BenchmarkList volumes-last/first", 0, false, "x"},
	{"", "a page of it", "BenchmarkList volumes-last-pages-ms", 0, false, "ms"},
	{"", "ListSnapshots of 10,000: last pages / first", "BenchmarkList snapshots-last/first", 0, false, "x"},
	{"P17", "100 CreateVolume at once / the floor's rate at 16 workers", "BenchmarkHundredAtOnce xFloor", 2.0, false, "x"},
}

// isInformative tells whether the figure has no target: must is zero and the id is empty.
func (g goal) isInformative() bool { return g.id == "" }

func printTable(out io.Writer, results samples) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tfigure\tmedian\tleast\tgreatest\tn\tmust\t")
	for _, g := range goals {
		values := slices.Sorted(slices.Values(results[g.key]))
		if len(values) == 0 {
			continue
		}
		median := values[len(values)/2]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			g.id, g.title, g.format(median), g.format(values[0]), g.format(values[len(values)-1]), len(values), g.limitText(), g.verdict(median))
	}
	_ = w.Flush()
}

func (g goal) format(v float64) string { return fmt.Sprintf("%.4g %s", v, g.unit) }

func (g goal) limitText() string {
	switch {
	case g.isInformative():
		return ""
	case g.atLeast:
		return fmt.Sprintf(">= %g", g.limit)
	}
	return fmt.Sprintf("<= %g", g.limit)
}

func (g goal) verdict(v float64) string {
	switch {
	case g.isInformative():
		return ""
	case g.atLeast == (v >= g.limit) || v == g.limit:
		return "met"
	}
	return "MISSED"
}
