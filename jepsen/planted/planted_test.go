package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

func TestEachBugHasWhoMustFindIt(t *testing.T) {
	names, err := os.ReadFile(filepath.Join("..", "..", "plantedbug", "names.go"))
	require.NoError(t, err)
	seen := map[plantedbug.Bug]bool{}
	for i := range table {
		require.False(t, seen[table[i].bug], "%s is there twice", table[i].bug)
		seen[table[i].bug] = true
		require.Contains(t, string(names), `"`+string(table[i].bug)+`"`)
		require.NotEmpty(t, table[i].catchers)
		for _, name := range table[i].catchers {
			require.NotNil(t, catcherOf(name))
		}
	}
	require.Equal(t, strings.Count(string(names), " Bug = "), len(table)+1, "all but the lever")
}

// TestThePageHasEveryBug: a bug that is new has to be run before the page is right again.
func TestThePageHasEveryBug(t *testing.T) {
	page, err := os.ReadFile("PLANTED.md")
	require.NoError(t, err)
	for i := range table {
		require.Contains(t, string(page), "| "+string(table[i].bug)+" |")
	}
}

func TestThePageSaysWhoFoundWhat(t *testing.T) {
	text := page([]result{
		{Bug: table[0].bug, Catcher: table[0].catchers[0], Caught: true, CPU: 1500 * time.Millisecond, By: "TestSeeds", Steps: "seed 3"},
		{Bug: table[1].bug, Catcher: table[1].catchers[0]},
		{Bug: table[1].bug, Catcher: table[1].catchers[1], Caught: true, By: "TestOther"},
	}, time.Second)
	require.Contains(t, text, "| "+string(table[0].bug)+" | sim | sim | TestSeeds | seed 3 | 1.5 s |")
	require.Contains(t, text, "| "+string(table[1].bug)+" | sim | fsm | TestOther |")
	require.Contains(t, text, "| "+string(table[2].bug)+" | sim | **not run** |")
	require.Contains(t, page([]result{{Bug: table[2].bug, Catcher: "sim"}}, time.Second), "| "+string(table[2].bug)+" | sim | **none** |")
	require.Contains(t, text, "1 found by the one that must, 1 by another")
}

func TestWordsOfAFailure(t *testing.T) {
	by, steps := words("--- FAIL: TestSeeds (0.1s)\n    seed 17 fails after 212 steps: stamps: block 3\nFAIL\n")
	require.Equal(t, "TestSeeds", by)
	require.Equal(t, "seed 17, 212 steps", steps)
	by, _ = words("panic: log index 3: deleted twice\n\ngoroutine 1")
	require.Equal(t, "panic: log index 3: deleted twice", by)
}

// sample are bugs of decisions, of the data path and of DRBD that the simulation finds at once: each run of the tests shows that the net
// holds. That nothing is found without one is what the simulation's own test shows.
var sample = []plantedbug.Bug{plantedbug.PublishNotExclusive, plantedbug.RemoveOnAbsence, plantedbug.OutdatedForgotten}

func TestASampleIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds tests with the bugs")
	}
	t.Chdir(filepath.Join("..", ".."))
	dir := t.TempDir()
	c := *catcherOf("sim")
	c.args = []string{"-test.run=^TestSeeds$", "-sim.seeds=200"}
	require.NoError(t, c.build(t.Context(), dir))
	for _, bug := range sample {
		found, err := c.catch(t.Context(), dir, bug, 10*time.Minute)
		require.NoError(t, err)
		require.True(t, found.Caught, "%s: %s", bug, found.brief())
	}
}
