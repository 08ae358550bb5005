package hostcheck

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const tcpList = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
	"   0: 00000000:1E78 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 501 1 x\n" + // 0.0.0.0:7800
	"   1: 0200000A:1E79 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 0 1 x\n" + // 10.0.0.2:7801, the kernel's own
	"   2: 0300000A:1E7A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 502 1 x\n" + // 10.0.0.3:7802, another address
	"   3: 0200000A:1E7B 0300000A:0050 01 00000000:00000000 00:00000000 00000000     0        0 503 1 x\n" + // a connection
	"   4: 0100007F:2648 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 504 1 x\n" // 127.0.0.1:9800

const tcp6List = "   0: 00000000000000000000000000000000:264A 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 505 1 x\n" + // [::]:9802
	"   1: nonsense\n"

func portsHost(t *testing.T, role Role) (*Gatherer, string) {
	g, root := plantedHost(t)
	g.Role = role
	for name, content := range map[string]string{"proc/net/tcp": tcpList, "proc/net/tcp6": tcp6List, "proc/77/comm": "haproxy\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc/77/fd"), 0o755))
	for inode, fd := range map[string]string{"501": "3", "504": "4", "505": "5"} {
		require.NoError(t, os.Symlink("socket:["+inode+"]", filepath.Join(root, "proc/77/fd", fd)))
	}
	return g, root
}

func TestPortsThatAnotherProcessHas(t *testing.T) {
	g, _ := portsHost(t, Node)
	g.ReplicationAddress = "10.0.0.2"
	for range 2 {
		ports := g.wantedPorts()
		require.Contains(t, ports, Port{Address: "0.0.0.0:7800", PID: 77, Process: "haproxy"})
		for _, p := range ports {
			require.NotContains(t, p.Address, "10.0.0.")
		}
		found := checkPorts(&Facts{Role: Node, Ports: ports})
		require.Len(t, found, 1)
		require.Equal(t, Warn, found[0].Severity)
		require.Contains(t, found[0].Found, "the port 7800, which is among the first that replicas listen on, is taken by process 77 (haproxy)")
		require.Contains(t, found[0].Remedy, "ss -ltnp 'sport = :7800'")
	}
	g.ReplicationAddress = ""
	require.Empty(t, g.wantedPorts(), "a host without replication needs none")
	require.Equal(t, OK, checkPorts(&Facts{Role: Node, Wants: Wants{Replication: true}})[0].Severity)
}

func TestPortsOfAController(t *testing.T) {
	g, _ := portsHost(t, Controller)
	for name, tc := range map[string]struct {
		listen string
		ports  []Port
	}{
		"the same address":      {"127.0.0.1:9800", []Port{{Address: "127.0.0.1:9800", PID: 77, Process: "haproxy"}}},
		"every address":         {":9800", []Port{{Address: "127.0.0.1:9800", PID: 77, Process: "haproxy"}}},
		"another address":       {"10.0.0.2:9800", nil},
		"who listens on all":    {"10.0.0.2:9802", []Port{{Address: "[::]:9802", PID: 77, Process: "haproxy"}}},
		"a port nobody has":     {":9801", nil},
		"what is no address":    {"nonsense", nil},
		"a name":                {"localhost:9800", []Port{{Address: "127.0.0.1:9800", PID: 77, Process: "haproxy"}}},
		"a port that is no one": {":999999", nil},
	} {
		g.Listen = []string{tc.listen}
		for range 2 {
			require.Equal(t, tc.ports, g.wantedPorts(), name)
		}
	}
	taken := &Facts{Role: Controller, Ports: []Port{{Address: "127.0.0.1:9800", PID: 77}}, DataDir: &DataDir{Holder: 77}}
	require.Empty(t, checkPorts(taken), "it is the controller itself")
	taken.DataDir.Holder = 0
	require.Equal(t, Error, checkPorts(taken)[0].Severity)
}

func TestHistogramsHaveEveryDurationOnce(t *testing.T) {
	took := []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond, 3 * time.Millisecond, time.Minute}
	all := histogram(took)
	total := uint64(0)
	for _, b := range all {
		total += b.Count
	}
	require.EqualValues(t, len(took), total)
	require.Equal(t, Bucket{100 * time.Microsecond, 2}, all[0])
	require.Equal(t, Bucket{0, 1}, all[len(all)-1])
	require.Empty(t, histogram(nil))
	syncs := NewSyncs([]time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond}, []uint64{0, 5, 8}, 8)
	require.Equal(t, []Bucket{{2 * time.Millisecond, 5}, {4 * time.Millisecond, 3}}, syncs.Buckets)
	require.Equal(t, 2*time.Millisecond, share(syncs.Buckets, 0.5))
	require.Equal(t, 4*time.Millisecond, share(syncs.Buckets, 0.99))
}

func TestSlowDurableWritesAreFound(t *testing.T) {
	spread := func(slowest time.Duration) *Syncs {
		return &Syncs{Buckets: []Bucket{{100 * time.Microsecond, 900}, {slowest, 100}}}
	}
	for name, tc := range map[string]struct {
		syncs *Syncs
		want  Severity
		found string
	}{
		"fast":                {spread(6400 * time.Microsecond), OK, "99 % of the 1000 durable writes of its Raft log"},
		"slow":                {spread(102400 * time.Microsecond), Warn, "took 102.4ms or less"},
		"too slow":            {spread(409600 * time.Microsecond), Error, "may lose leadership"},
		"slower than any":     {spread(0), Error, "longer than 3.2768s"},
		"too few to tell":     {&Syncs{Buckets: []Bucket{{time.Second, 99}}}, OK, "99 durable writes"},
		"none since it began": {&Syncs{}, OK, "0 durable writes"},
	} {
		for range 2 {
			found := checkSyncs(&Facts{Role: Controller, RaftSyncs: tc.syncs})
			require.Len(t, found, 1, name)
			require.Equal(t, tc.want, found[0].Severity, name)
			require.Contains(t, found[0].Found, tc.found, name)
			require.Equal(t, tc.syncs.Buckets, found[0].Histogram)
		}
	}
	slow := checkPools(&Facts{PoolDisks: []Latency{{Path: "/pool", Writes: 20, P99: time.Second, Buckets: []Bucket{{time.Second, 20}}}}})
	require.Equal(t, Warn, slow[0].Severity)
	require.Contains(t, slow[0].Found, "20 durable writes in the pool /pool")
	require.NotEmpty(t, slow[0].Histogram)
	require.Equal(t, Error, checkPools(&Facts{PoolDisks: []Latency{{Path: "/pool", Err: "input/output error"}}})[0].Severity)
}

func TestPoolsOfFilesAreMeasuredAndLeftAsTheyWere(t *testing.T) {
	g, root := plantedHost(t)
	g.Folders = []string{"/pool", "/pool/not/made"}
	require.Empty(t, g.poolDisks(), "a pool that is not made yet")
	tmp := filepath.Join(root, "pool/tmp")
	require.NoError(t, os.MkdirAll(tmp, 0o700))
	for range 2 {
		disks := g.poolDisks()
		require.Len(t, disks, 1)
		require.Equal(t, "/pool", disks[0].Path)
		require.Equal(t, 5, disks[0].Writes)
		require.NotEmpty(t, disks[0].Buckets)
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
