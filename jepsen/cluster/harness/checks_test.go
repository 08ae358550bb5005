package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// hosts is a cluster of hosts with these images in their pools, and without a process.
func hosts(t *testing.T, images map[string][]string) *Cluster {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	c, err := Prepare(Options{})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(c.Dir, 0o700))
	var l Layout
	for id, names := range images {
		pool := filepath.Join(c.Base, id)
		require.NoError(t, os.MkdirAll(filepath.Join(pool, "volumes"), 0o700))
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(pool, "volumes", name), nil, 0o600))
		}
		l.Nodes = append(l.Nodes, Node{ID: id, PoolDir: pool})
	}
	require.NoError(t, c.WriteLayout(l))
	return c
}

func TestAllImagesFinds(t *testing.T) {
	right := hosts(t, map[string][]string{"n1": {"vol-1.img", "vol-2.img"}, "n2": {"vol-3.img"}})
	images, err := right.AllImages()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"vol-1": "n1", "vol-2": "n1", "vol-3": "n2"}, images)
	for problem, planted := range map[string]map[string][]string{
		"volume vol-1 has an image on": {"n1": {"vol-1.img"}, "n2": {"vol-1.img"}},
		"is no image of a volume":      {"n1": {"vol-1.img", "vol-2"}},
	} {
		_, err := hosts(t, planted).AllImages()
		require.ErrorContains(t, err, problem)
	}
}

func TestAgreeFinds(t *testing.T) {
	for problem, spoil := range map[string]func(*Status){
		"":                                    func(*Status) {},
		"c2 has hash bb at 7, c1 has aa at 7": func(s *Status) { s.Members[1].StateHash = "bb" },
		"c2 has hash aa at 8, c1 has aa at 7": func(s *Status) { s.Members[1].HashIndex = 8 },
		"c2 is not reachable":                 func(s *Status) { s.Members[1].Reachable = false },
		"c2 has no state hash":                func(s *Status) { s.Members[1].StateHash = "" },
		"status lists no member":              func(s *Status) { s.Members = nil },
	} {
		s := Status{}
		for _, id := range []string{"c1", "c2"} {
			s.Members = append(s.Members, Member{ID: id, Reachable: true, StateHash: "aa", HashIndex: 7})
		}
		spoil(&s)
		if problem == "" {
			require.NoError(t, s.Agree())
		} else {
			require.ErrorContains(t, s.Agree(), problem)
		}
	}
}
