package lvm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

const testChunk = 64 << 10

// testLaterSnapshotID is the second snapshot of withSnapshots; the first one is testSnapshotID.
const testLaterSnapshotID = fsm.SnapshotID("hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c13")

// adjacentSize is the volume's size in thin_dump-touching-*.xml: it ends within a block.
const adjacentSize = 2000*testChunk + 4096

// withSnapshots makes two snapshots of one volume of a captured report with one, as
// thin devices 7 and 9.
func withSnapshots(t *testing.T, f *fakeHost) {
	t.Helper()
	captured := ""
	for line := range strings.Lines(string(readTestdata(t, "lvs.json"))) {
		if strings.Contains(line, string(testSnapshotID)) {
			captured = line
		}
	}
	first := strings.NewReplacer(`"thin_id":"3"`, `"thin_id":"7"`, "holdfast-size=16781312", fmt.Sprintf("holdfast-size=%d", adjacentSize), `"20971520"`, `"134217728"`).Replace(captured)
	later := strings.NewReplacer(`"thin_id":"7"`, `"thin_id":"9"`, string(testSnapshotID), string(testLaterSnapshotID), "2GyyAL", "2GyyAM").Replace(first)
	f.lvs = []byte(strings.Replace(string(readTestdata(t, "lvs.json")), captured, first+later, 1))
	f.dumps = map[string]string{"7": string(readTestdata(t, "thin_dump-touching-base.xml")), "9": string(readTestdata(t, "thin_dump-touching-target.xml"))}
}

func newFakePoolWithSnapshots(t *testing.T) (*Pool, *fakeHost) {
	t.Helper()
	p, f := newFakePool(t)
	withSnapshots(t, f)
	return p, f
}

func blocks(begin, length int64) executor.Extent {
	return executor.Extent{Offset: begin * testChunk, Length: length * testChunk}
}

// adjacentExtents is what differs, as thin_delta 0.9.0 printed it of the same metadata into
// thin_delta-touching.xml, merged and clipped to the volume.
var adjacentExtents = []executor.Extent{blocks(3, 2), blocks(7, 4), blocks(1128, 1), {Offset: 2000 * testChunk, Length: 4096}}

func collectMap(t *testing.T, p *Pool, from int64) []executor.Extent {
	t.Helper()
	var all []executor.Extent
	require.NoError(t, p.Delta(t.Context(), testSnapshotID, testLaterSnapshotID, from, func(e executor.Extent) bool { all = append(all, e); return true }))
	return all
}

// Blocks 3 and 4 were written together: they are adjacent in the volume, but not in the base's part
// of the pool, which thin_delta 1.0.0 to 1.0.4 reports as no difference.
func TestAdjacentRangesApartInThePoolAreCompared(t *testing.T) {
	p, f := newFakePoolWithSnapshots(t)
	require.Equal(t, adjacentExtents, collectMap(t, p, 0))
	require.Equal(t, differences(t, "thin_delta-touching.xml"), collectMap(t, p, 0))
	require.Equal(t, append([]executor.Extent{{Offset: 3*testChunk + 512, Length: 2*testChunk - 512}}, adjacentExtents[1:]...), collectMap(t, p, 3*testChunk+512))
	require.Empty(t, collectMap(t, p, adjacentSize))
	require.Zero(t, f.count("thin_delta"), "thin_delta is never run")
	var back []executor.Extent
	require.NoError(t, p.Delta(t.Context(), testLaterSnapshotID, testSnapshotID, 0, func(e executor.Extent) bool { back = append(back, e); return true }))
	require.Equal(t, adjacentExtents, back)
}

// differences parses a captured output of thin_delta.
func differences(t *testing.T, name string) (all []executor.Extent) {
	t.Helper()
	for line := range strings.Lines(string(readTestdata(t, name))) {
		kind, attributes, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind != "<different" && kind != "<left_only" && kind != "<right_only" {
			continue
		}
		e := blocks(parseNumber(attribute(attributes, "begin")), parseNumber(attribute(attributes, "length")))
		e.Length = min(e.Length, adjacentSize-e.Offset)
		if n := len(all); n > 0 && all[n-1].Offset+all[n-1].Length == e.Offset {
			all[n-1].Length += e.Length
			continue
		}
		all = append(all, e)
	}
	return all
}

func TestMapMatchesThinDump(t *testing.T) {
	p, f := newFakePoolWithSnapshots(t)
	f.dumps["7"] = strings.ReplaceAll(string(readTestdata(t, "thin_dump.xml")), `dev_id="2"`, `dev_id="7"`)
	ask := func(from int64) (all []executor.Extent) {
		require.NoError(t, p.Map(t.Context(), testSnapshotID, from, func(e executor.Extent) bool { all = append(all, e); return true }))
		return all
	}
	require.Equal(t, []executor.Extent{blocks(1, 6), blocks(40, 1)}, ask(0))
	require.Equal(t, []executor.Extent{{Offset: 6*testChunk + 1, Length: testChunk - 1}, blocks(40, 1)}, ask(6*testChunk+1))
	require.Equal(t, []executor.Extent{blocks(40, 1)}, ask(7*testChunk))
	require.Empty(t, ask(41*testChunk))
}

func TestADumpThatIsNotUnderstoodIsAnError(t *testing.T) {
	const head, tail = "<superblock uuid=\"\">\n<device dev_id=\"7\" mapped_blocks=\"1\">\n", "</device>\n</superblock>\n"
	for name, text := range map[string]string{
		"no number":              head + `<single_mapping origin_block="x" data_block="1" time="0"/>` + "\n" + tail,
		"no place in the pool":   head + `<single_mapping origin_block="1" time="0"/>` + "\n" + tail,
		"no length":              head + `<range_mapping origin_begin="1" data_begin="1" time="0"/>` + "\n" + tail,
		"nothing long":           head + `<range_mapping origin_begin="1" data_begin="1" length="0" time="0"/>` + "\n" + tail,
		"below zero":             head + `<range_mapping origin_begin="-1" data_begin="1" length="1" time="0"/>` + "\n" + tail,
		"beyond all":             head + `<range_mapping origin_begin="9223372036854775807" data_begin="1" length="1" time="0"/>` + "\n" + tail,
		"backwards":              head + "<single_mapping origin_block=\"5\" data_block=\"5\"/>\n<single_mapping origin_block=\"4\" data_block=\"4\"/>\n" + tail,
		"what is shared apart":   head + `<ref name="3"/>` + "\n" + tail,
		"a line without an end":  head + strings.Repeat("x", 2*maxLineBytes),
		"of another device":      "<superblock uuid=\"\">\n<device dev_id=\"8\" mapped_blocks=\"1\">\n<single_mapping origin_block=\"1\" data_block=\"1\"/>\n" + tail,
		"of no device":           string(readTestdata(t, "thin_dump-none.xml")),
		"less than all":          head + `<single_mapping origin_block="1" data_block="1" time="0"/>` + "\n</device>\n",
		"nothing, though it ran": "",
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePoolWithSnapshots(t)
			f.dumps["7"] = text
			for range 2 {
				require.Error(t, p.Delta(t.Context(), testSnapshotID, testLaterSnapshotID, 0, func(executor.Extent) bool { return true }))
				require.Error(t, p.Map(t.Context(), testSnapshotID, 0, func(executor.Extent) bool { return true }))
			}
			require.Equal(t, f.count("dmsetup message vg--a-pool-tpool 0 reserve"), f.count("dmsetup message vg--a-pool-tpool 0 release"))
		})
	}
}

// A snapshot that is removed while a comparison waits for the pool's metadata leaves its
// thin id to the next volume.
func TestThinIDsAreLookedUpAgainWhileTheMetadataIsReserved(t *testing.T) {
	for name, change := range map[string]func(lvs string) string{
		"another has its id": func(lvs string) string {
			return strings.NewReplacer(`"thin_id":"9"`, `"thin_id":"10"`, `"thin_id":"4"`, `"thin_id":"9"`).Replace(lvs)
		},
		"it is gone":                func(lvs string) string { return strings.ReplaceAll(lvs, string(testLaterSnapshotID), "other") },
		"it was made a second time": func(lvs string) string { return strings.ReplaceAll(lvs, "2GyyAM", "3GyyAM") },
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePoolWithSnapshots(t)
			before := string(f.lvs)
			f.after = func(command string) {
				if command == "dmsetup message" {
					f.lvs = []byte(change(before))
				}
			}
			err := p.Delta(t.Context(), testSnapshotID, testLaterSnapshotID, 0, func(executor.Extent) bool { return true })
			require.Contains(t, []fsm.Reason{fsm.Busy, fsm.Precondition}, reason(err), err)
			require.Zero(t, f.count("thin_dump"), "no thin id is compared that another device may have")
			require.Equal(t, 1, f.count("dmsetup message vg--a-pool-tpool 0 release"))
		})
	}
}

func TestThePagesOfAMapShareOneRun(t *testing.T) {
	p, f := newFakePoolWithSnapshots(t)
	var all []executor.Extent
	for from := int64(0); ; from = all[len(all)-1].Offset + all[len(all)-1].Length {
		before := len(all)
		require.NoError(t, p.Delta(t.Context(), testSnapshotID, testLaterSnapshotID, from, func(e executor.Extent) bool { all = append(all, e); return false }))
		if len(all) == before {
			break
		}
	}
	require.Equal(t, adjacentExtents, all)
	require.Equal(t, 2, f.count("thin_dump"), "one of each snapshot")
	require.Equal(t, 1, f.count("dmsetup message vg--a-pool-tpool 0 reserve"))
}

func TestAMapRunStopsAtTheExtentLimit(t *testing.T) {
	p, f := newFakePoolWithSnapshots(t)
	for limit, runs := range map[int]int{1: 4, 2: 2, 3: 2, 4: 1} {
		p.maps.runs, f.commands = newMapRunCache(), nil
		p.maps.runs.limit = limit
		require.Equal(t, adjacentExtents, collectMap(t, p, 0), limit)
		require.Equal(t, 2*runs, f.count("thin_dump"), limit)
	}
}

// An interrupted reader gets what was found and how far the run is; the run continues.
func TestAnInterruptedComparisonIsResumed(t *testing.T) {
	p, f := newFakePoolWithSnapshots(t)
	f.block = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, p.Delta(ctx, testSnapshotID, testSnapshotID, 0, nil), "no tool is run for it")
	cancel()
	err := p.maps.read(ctx, snapshotPair{testSnapshotID, testLaterSnapshotID}, 0, func(executor.Extent) bool { return true })
	var part *executor.InterruptedError
	require.ErrorAs(t, err, &part)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, part.Offset, int64(adjacentSize))
	close(f.block)
	require.Equal(t, adjacentExtents, collectMap(t, p, 0))
	require.Equal(t, 2, f.count("thin_dump"), "the run continued for the next reader")
}

func TestAFailedMapRunIsRestarted(t *testing.T) {
	p, f := newFakePoolWithSnapshots(t)
	f.failures["thin_dump -m"] = errors.New("out of memory")
	require.ErrorContains(t, p.Delta(t.Context(), testSnapshotID, testLaterSnapshotID, 0, func(executor.Extent) bool { return true }), "out of memory")
	delete(f.failures, "thin_dump -m")
	require.Equal(t, adjacentExtents, collectMap(t, p, 0))
}

func TestOnlyTheLatestMapRunsAreKept(t *testing.T) {
	c := newMapRunCache()
	find := func(_ context.Context, _ snapshotPair, _ int64, yield func(executor.Extent) error) error {
		return yield(blocks(0, 1))
	}
	for n := range 3 * maxIdleRuns {
		pair := snapshotPair{target: fsm.SnapshotID(fmt.Sprint(n))}
		require.NoError(t, c.read(t.Context(), pair, 0, find, func(executor.Extent) bool { return true }))
		require.LessOrEqual(t, len(c.runs), maxIdleRuns)
		require.Contains(t, c.runs, pair)
	}
	pair := snapshotPair{target: "kept"}
	c.ttl = 0
	require.NoError(t, c.read(t.Context(), pair, 0, find, func(executor.Extent) bool { return true }))
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.runs[pair] == nil
	}, time.Minute, time.Millisecond, "a run without readers is dropped")
}

// A dump hands its last mappings over when it ends, which may be none.
func TestADumpMayEndWithAnEmptyBatch(t *testing.T) {
	full := make([]mapping, mappingBatch)
	for i := range full {
		full[i] = mapping{volumeBlock: int64(i), poolBlock: int64(i), blocks: 1}
	}
	for name, batches := range map[string][][]mapping{
		"nothing is mapped":      {nil},
		"the last batch is full": {full, nil},
		"there is none":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := &thinDump{batches: make(chan []mapping, len(batches))}
			var want []executor.Extent
			for _, b := range batches {
				d.batches <- b
				if len(b) > 0 {
					want = []executor.Extent{blocks(0, mappingBatch)}
				}
			}
			close(d.batches)
			var got []executor.Extent
			for range 2 { // the second look finds the dump at its end
				require.NoError(t, mergeDumps([]*thinDump{d}, testChunk, 0, 4*mappingBatch*testChunk, func(e executor.Extent) error {
					if n := len(got); n > 0 && got[n-1].Offset+got[n-1].Length == e.Offset {
						got[n-1].Length += e.Length
					} else {
						got = append(got, e)
					}
					return nil
				}))
			}
			require.Equal(t, want, got)
		})
	}
}
