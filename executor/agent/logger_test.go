package agent_test

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
)

// maxLastLines is how many lines of its hosts' logs a test that fails shows.
const maxLastLines = 400

// testLogger is the log of a test's hosts. All of it is shown with HOLDFAST_TEST_LOG, the last lines of it where the test
// fails: what fails once in a thousand runs must say why there and then.
func testLogger(t testing.TB) *slog.Logger {
	var out io.Writer = os.Stderr
	if os.Getenv("HOLDFAST_TEST_LOG") == "" {
		lines := &lastLines{}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the last lines of its log:\n%s", lines)
			}
		})
		out = lines
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", t.Name())
}

// lastLines keeps the last lines that were written: each Write is one.
type lastLines struct {
	mu   sync.Mutex
	ring [maxLastLines]string
	next int
}

func (l *lastLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.next%maxLastLines] = string(line)
	l.next++
	return len(line), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.next % maxLastLines
	return strings.Join(append(append([]string{}, l.ring[oldest:]...), l.ring[:oldest]...), "")
}
