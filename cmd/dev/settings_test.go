package dev

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestPortsAreChosenOnce(t *testing.T) {
	l := layout{t.TempDir()}
	first, err := loadOrCreateSettings(l, 3, 2)
	require.NoError(t, err)
	taken := map[int]bool{}
	for id, ports := range first.Ports {
		for purpose, port := range ports {
			require.False(t, taken[port], "%s of %s", purpose, id)
			require.Less(t, port, 32768, "not one of those for outgoing connections")
			taken[port] = true
		}
	}
	require.Len(t, taken, 3*3+2)
	for range 2 {
		again, err := loadOrCreateSettings(l, 3, 2)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

func TestChangedCountsAreAUsageError(t *testing.T) {
	l := layout{t.TempDir()}
	_, err := loadOrCreateSettings(l, 3, 1)
	require.NoError(t, err)
	for _, numbers := range [][2]int{{1, 1}, {3, 2}} {
		_, err := loadOrCreateSettings(l, numbers[0], numbers[1])
		require.ErrorContains(t, err, "--controllers 3 --nodes 1")
		require.Equal(t, exit.Usage, exit.Code(err))
	}
}

func TestC1FoundsTheClusterOnlyUntilItWasReady(t *testing.T) {
	l := layout{"/d"}
	s := &settings{Controllers: 3, Nodes: 1, Ports: map[string]map[string]int{"c2": {"raft": 7}, "c3": {"raft": 8}}}
	o := &Options{Binary: "holdfast"}
	first := strings.Join(o.commandLine(l, s, "c1"), " ")
	require.Contains(t, first, "--bootstrap")
	require.NotContains(t, first, "--join")
	require.NotContains(t, strings.Join(o.commandLine(l, s, "c2"), " "), "--bootstrap")
	s.Founded = true
	later := strings.Join(o.commandLine(l, s, "c1"), " ")
	require.NotContains(t, later, "--bootstrap")
	require.Contains(t, later, "--join 127.0.0.1:7 --join 127.0.0.1:8")
}

func TestProcessArguments(t *testing.T) {
	s := &settings{Controllers: 1, Nodes: 1, Ports: map[string]map[string]int{}}
	o := &Options{Binary: "holdfast", LogStore: "boltdb", LogLevel: "debug", Overcommit: 1.5, FaultPoints: true, AllowRoots: []string{"/", "/x"},
		ControllerArgs: []string{"--snapshot-threshold=9"}, NodeArgs: []string{"--min-free=1"}}
	c, n := strings.Join(o.commandLine(layout{"/d"}, s, "c1"), " "), strings.Join(o.commandLine(layout{"/d"}, s, "n1"), " ")
	require.Contains(t, c, "--log-store boltdb")
	require.Contains(t, c, "--snapshot-threshold=9")
	require.Contains(t, n, "--overcommit 1.5 --enable-fault-points --min-free=1")
	require.Contains(t, n, "--allow-root / --allow-root /x")
	require.NotContains(t, c, "--min-free")
}

func TestProcessesAreAtOneSiteAfterTheOther(t *testing.T) {
	s := &settings{Controllers: 3, Nodes: 2, Ports: map[string]map[string]int{}}
	o := &Options{Binary: "holdfast", Sites: []string{"A", "B"}, NodeArgs: []string{"--site", "C"}}
	for id, want := range map[string]string{"c1": "--site A", "c2": "--site B", "c3": "--site A", "n1": "--site A --site C", "n2": "--site B --site C"} {
		require.True(t, strings.HasSuffix(strings.Join(o.commandLine(layout{"/d"}, s, id), " "), " "+want), id)
	}
	require.NotContains(t, (&Options{Binary: "holdfast"}).commandLine(layout{"/d"}, s, "c1"), "--site")
}

func TestSocketsGoBelowRunWhenTheirPathIsTooLong(t *testing.T) {
	short, long := layout{"/tmp/d"}, layout{"/" + strings.Repeat("x", 90)}
	require.Equal(t, "unix:///tmp/d/sock/c1.sock", short.endpoint("c1"))
	require.True(t, strings.HasPrefix(long.csi("c1"), "/run/holdfast-dev/"), long.csi("c1"))
	require.LessOrEqual(t, len(long.csi("c10")), maxSocketPath)
	require.NotEqual(t, long.sockets(), layout{long.dir + "y"}.sockets())
}

func TestClusterFileHasTheFieldsOfTheContract(t *testing.T) {
	l := layout{"/tmp/d"}
	s := &settings{Controllers: 1, Nodes: 1, Ports: map[string]map[string]int{"c1": {"api": 1, "metrics": 2}, "n1": {"metrics": 3}}}
	text, err := json.Marshal(clusterOf(l, s, map[string]int{"c1": 42}))
	require.NoError(t, err)
	require.JSONEq(t, `{"version":1,
	"controllers":[{"id":"c1","pid":42,"csi_endpoint":"unix:///tmp/d/sock/c1.sock","api":"127.0.0.1:1","metrics":"127.0.0.1:2","data_dir":"/tmp/d/controllers/c1"}],
	"nodes":[{"id":"n1","pid":0,"csi_endpoint":"unix:///tmp/d/sock/n1.sock","metrics":"127.0.0.1:3","pool_dir":"/tmp/d/nodes/n1/pool","data_dir":"/tmp/d/nodes/n1/data"}]}`,
		string(text))
}

func TestFolderIsLocked(t *testing.T) {
	l := layout{t.TempDir()}
	held, err := lock(l)
	require.NoError(t, err)
	for range 2 {
		_, err = lock(l)
		require.ErrorContains(t, err, "stop it first")
		require.Equal(t, exit.Refused, exit.Code(err))
	}
	require.NoError(t, held.Close())
	again, err := lock(l)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestSettingsOfAnotherVersionAreRefused(t *testing.T) {
	l := layout{t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "dev.json"), []byte(`{"version":9}`), 0o600))
	_, err := loadOrCreateSettings(l, 3, 1)
	require.ErrorContains(t, err, "dev clean")
}
