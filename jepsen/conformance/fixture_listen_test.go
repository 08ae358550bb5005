package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// listeners shows every TCP address that the cluster's processes listen on.
func (k *fixture) listeners(see func(id, address string)) {
	k.t.Helper()
	l, err := k.env.Cluster.Layout()
	require.NoError(k.t, err)
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(k.t, err)
	for _, id := range everyone {
		own := map[string]bool{}
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", l.PID(id)))
		require.NoError(k.t, err)
		for _, fd := range fds {
			if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
				own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
			}
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && own[f[9]] {
				var port int
				_, err := fmt.Sscanf(f[1], "0100007F:%X", &port)
				require.NoError(k.t, err, "%s listens beyond this host: %s", id, f[1])
				see(id, fmt.Sprintf("127.0.0.1:%d", port))
			}
		}
	}
}

// metricsPort is ":port" of a process's metrics.
func (k *fixture) metricsPort(id string) string {
	l, err := k.env.Cluster.Layout()
	require.NoError(k.t, err)
	address := ""
	for _, c := range l.Controllers {
		if c.ID == id {
			address = c.Metrics
		}
	}
	for _, n := range l.Nodes {
		if n.ID == id {
			address = n.Metrics
		}
	}
	return address[strings.LastIndex(address, ":"):]
}
