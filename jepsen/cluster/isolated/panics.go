package isolated

import (
	"fmt"
	"os"
	"strings"
)

// memoryDeaths are how the runtime of Go ends a process that the kernel refuses memory.
var memoryDeaths = []string{"out of memory", "cannot allocate memory", "failed to create new OS thread", "newosproc", "cannot map pages"}

// Panics answers an error when the log of a member has a panic, a data race or another end by Go's runtime. That of a process
// that LimitMemory refused memory is none.
func (c *Cluster) Panics() error {
	for _, m := range c.Members() {
		text, err := os.ReadFile(m.LogPath())
		if err != nil {
			return err
		}
		for _, word := range []string{"\npanic: ", "\nfatal error: ", "WARNING: DATA RACE"} {
			if said, found := m.firstDeath("\n"+string(text), word); found {
				return fmt.Errorf("the log of %s: %s", m.ID, said)
			}
		}
	}
	return nil
}

// firstDeath is the first that a log says in these words, and that no limit explains.
func (m *Member) firstDeath(text, word string) (said string, found bool) {
	m.mu.Lock()
	limited := m.limited
	m.mu.Unlock()
	for {
		at := strings.Index(text, word)
		if at < 0 {
			return "", false
		}
		text = text[at+1:]
		said = text[:min(len(text), 3000)]
		line, _, _ := strings.Cut(said, "\n\n")
		if !limited || !containsAny(line, memoryDeaths) {
			return said, true
		}
	}
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
