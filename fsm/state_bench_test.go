package fsm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// benchVolumes is the size of a large cluster, for which the goals are given.
const benchVolumes = 100_000

// uuidOf is a UUID that follows from a number.
func uuidOf(n int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(n)))
	u, _ := unpackUUID(sum[:16])
	return u.text()
}

// realCreate is what an external-provisioner has us propose in a cluster of three
// nodes: a name with a UUID, one capability, the topologies of all nodes with their
// zones as requisite and again as preferred, the selected node's first; and the
// leader's facts of the three pools.
func realCreate(n int) *fsmpb.CreateVolume {
	var terms []*fsmpb.Topology
	for i := range 3 {
		terms = append(terms, &fsmpb.Topology{Segments: []*fsmpb.Label{
			{Key: TopologyKey, Value: fmt.Sprint("node-", i)}, {Key: ZoneKey, Value: fmt.Sprint("zone-", i)},
		}})
	}
	var facts []*fsmpb.PoolFact
	for i := range 3 {
		facts = append(facts, &fsmpb.PoolFact{PoolId: fmt.Sprintf("2e1c7f3a-6d1e-4a51-9a5e-0c54f7d7e0b%d", i), FreeBytes: 1 << 50, Index: uint64(2*n - 500)})
	}
	return &fsmpb.CreateVolume{
		VolumeId: "hf-" + uuidOf(n), Name: "pvc-" + uuidOf(n+1<<30), Fingerprint: bytesOf("storage class", 32),
		RequiredBytes: gib, Capabilities: []*fsmpb.Capability{mount(writer)}, Replicas: 1, Requisite: terms, Preferred: slices.Concat(terms[n%3:], terms[:n%3]),
		Facts: facts,
	}
}

// realNodes registers the three nodes that realCreate names.
func realNodes(w *world) {
	w.ok("admin/ann", bootstrap())
	for i := range 3 {
		r := register(fmt.Sprint("node-", i))
		r.HostId, r.Pools[0].PoolId = uuidOf(-i-1), fmt.Sprintf("2e1c7f3a-6d1e-4a51-9a5e-0c54f7d7e0b%d", i)
		r.Pools[0].CapacityBytes = 1 << 50
		r.Labels = []*fsmpb.Label{{Key: ZoneKey, Value: fmt.Sprint("zone-", i)}}
		w.ok("node/"+r.NodeId, r)
	}
}

// encodedCreates are commands as a log holds them.
func encodedCreates(t testing.TB, from, n int, create func(int) *fsmpb.CreateVolume) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		raw, err := proto.Marshal(envelope("controller/c1", fmt.Sprint("create ", from+i), uint64(2*(from+i)), create(from+i)))
		require.NoError(t, err)
		all[i] = raw
	}
	return all
}

// decode is what every member does with an entry before Apply.
func decode(t testing.TB, raw []byte) *fsmpb.Command {
	cmd := &fsmpb.Command{}
	if err := proto.Unmarshal(raw, cmd); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// largeState has n Ready volumes, each made by a create and a report, as in life.
func largeState(t testing.TB, n int) *world {
	w := &world{t: t, s: New()}
	realNodes(w)
	for i, raw := range encodedCreates(t, 500, n, realCreate) {
		out := w.s.Apply(w.next(), decode(t, raw)).Outcome
		require.NoError(t, Err(out))
		v, _ := w.s.Volume(VolumeID(out.GetVolumeId()))
		node := string(v.Replicas[0].Node)
		host, _ := w.s.Node(v.Replicas[0].Node)
		report := &fsmpb.Report{NodeId: node, HostId: string(host.Host), BootId: host.Boot, Observations: []*fsmpb.Observation{
			{VolumeId: out.GetVolumeId(), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}},
		}}
		w.s.Apply(w.next(), envelope("node/"+node, fmt.Sprint("report ", i), w.index, report))
	}
	return w
}

// threadCPU is the CPU time of this thread, which must be locked. It is what
// RUSAGE_THREAD counts, without that call's lag of up to a tick.
func threadCPU() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}

// BenchmarkApplyCreate: P11, decoding and applying a create in a state of 100,000
// volumes, against decoding it alone. Windows of both alternate on one thread. The
// small command is as long as the one that the goal was measured with.
func BenchmarkApplyCreate(b *testing.B) {
	b.Run("small", func(b *testing.B) { applyCreates(b, smallCreate) })
	b.Run("with-topology", func(b *testing.B) { applyCreates(b, realCreate) })
}

// smallCreate is realCreate without topologies.
func smallCreate(n int) *fsmpb.CreateVolume {
	c := realCreate(n)
	c.Requisite, c.Preferred = nil, nil
	return c
}

func applyCreates(b *testing.B, create func(int) *fsmpb.CreateVolume) {
	w := largeState(b, benchVolumes)
	raws := encodedCreates(b, 500+benchVolumes, b.N, create)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	apply := func(raw []byte) {
		if out := w.s.Apply(w.next(), decode(b, raw)).Outcome; out.Rejection != nil {
			b.Fatal(out)
		}
	}
	var decoding, applying time.Duration
	before := mallocs()
	b.ResetTimer()
	for from := 0; from < b.N; from += 256 {
		window := raws[from:min(from+256, b.N)]
		t := threadCPU()
		for _, raw := range window {
			decode(b, raw)
		}
		decoding += threadCPU() - t
		t = threadCPU()
		for _, raw := range window {
			apply(raw)
		}
		applying += threadCPU() - t
	}
	b.StopTimer()
	all := mallocs() - before
	before = mallocs()
	for _, raw := range raws {
		decode(b, raw)
	}
	solo := mallocs() - before
	b.ReportMetric(float64(applying)/float64(decoding), "xDecode")
	b.ReportMetric(float64(all-solo)/float64(b.N), "allocs/apply")
	b.ReportMetric(float64(solo)/float64(b.N), "allocs/decode")
	b.ReportMetric(float64(applying.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(decoding.Nanoseconds())/float64(b.N), "cpu-ns/decode")
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// P11 and P13: what does not depend on the machine is held by a test.
func TestApplyAndDumpsStayLean(t *testing.T) {
	w := largeState(t, 2000)
	raws := encodedCreates(t, 5000, 400, smallCreate)
	next := 0
	allocs := testing.AllocsPerRun(len(raws)-1, func() {
		w.s.Apply(w.next(), decode(t, raws[next]))
		next++
	})
	require.LessOrEqual(t, allocs, 45.0)
	require.LessOrEqual(t, len(dumpOf(t, w.s))/w.s.VolumeCount(), 250)
}

// live is the heap in use after a collection.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemoryPerVolume: P12, with the memory of answers full.
func BenchmarkMemoryPerVolume(b *testing.B) {
	for b.Loop() {
		before := live()
		w := largeState(b, benchVolumes)
		w.log = nil
		b.ReportMetric(float64(live()-before)/benchVolumes, "B/volume")
		runtime.KeepAlive(w)
	}
}

// BenchmarkForkPause: P13, what Apply waits for while a copy is taken.
func BenchmarkForkPause(b *testing.B) {
	w := largeState(b, benchVolumes)
	for b.Loop() {
		w.s.Fork()
	}
}

// BenchmarkDumpEncode: P13, bytes per volume, and the most that the heap grows
// while a snapshot streams, against the snapshot's size.
func BenchmarkDumpEncode(b *testing.B) {
	w := largeState(b, benchVolumes)
	for b.Loop() {
		before := live()
		meter := &heapMeter{}
		require.NoError(b, w.s.WriteDump(meter, 1))
		b.ReportMetric(float64(meter.written)/benchVolumes, "B/volume")
		b.ReportMetric(max(0, float64(meter.peak)-float64(before))/float64(meter.written), "xHeap")
	}
}

// heapMeter is a writer that watches the heap.
type heapMeter struct{ written, peak uint64 }

func (m *heapMeter) Write(b []byte) (int, error) {
	m.written += uint64(len(b))
	if m.written>>20 != (m.written-uint64(len(b)))>>20 {
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		m.peak = max(m.peak, s.HeapAlloc)
	}
	return len(b), nil
}

// BenchmarkRestart: P14, a state of 100,000 volumes from its snapshot, against
// replaying as many entries. Both in turn, as the machine's speed varies.
func BenchmarkRestart(b *testing.B) {
	w := largeState(b, benchVolumes)
	var file bytes.Buffer
	require.NoError(b, w.s.WriteDump(&file, 1))
	raws := encodedCreates(b, 500, benchVolumes, realCreate)
	var restoring, replaying time.Duration
	for b.Loop() {
		runtime.GC()
		t := time.Now()
		s, _, err := ReadDump(bytes.NewReader(file.Bytes()))
		restoring += time.Since(t)
		require.NoError(b, err)
		require.Equal(b, w.s.Hash(), s.Hash())
		runtime.GC()
		t = time.Now()
		replay(b, raws)
		replaying += time.Since(t)
	}
	b.ReportMetric(float64(restoring)/float64(replaying), "xReplay")
	b.ReportMetric(float64(restoring.Nanoseconds())/float64(b.N)/benchVolumes, "restore-ns/volume")
	b.ReportMetric(float64(replaying.Nanoseconds())/float64(b.N)/benchVolumes, "replay-ns/entry")
}

func replay(b *testing.B, raws [][]byte) {
	w := &world{t: b, s: New()}
	realNodes(w)
	for _, raw := range raws {
		w.s.Apply(w.next(), decode(b, raw))
	}
}
