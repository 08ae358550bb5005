package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWarningIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		flags := LogFlags{Level: "info", Format: "text"}
		log, err := flags.Logger(&out)
		require.NoError(t, err)
		log = log.With("volume", "v1")
		lines := func() int { defer out.Reset(); return strings.Count(out.String(), "\n") }

		for failures := range 50 {
			log.Warn("step failed", "error", errors.New("no such device"), "failures", failures)
			time.Sleep(200 * time.Millisecond)
		}
		require.Equal(t, 1, lines())
		log.Warn("step failed", "error", errors.New("another reason"))
		log.With("volume", "v2").Warn("step failed", "error", errors.New("no such device"))
		log.Info("said as often as it is")
		log.Info("said as often as it is")
		require.Equal(t, 4, lines())

		time.Sleep(dedupInterval)
		log.Warn("step failed", "error", errors.New("no such device"), "failures", 51)
		require.Contains(t, out.String(), "repeated=49")
		require.Equal(t, 1, lines())
	})
}

func TestRepeatedLinesAreThereAtDebugLevel(t *testing.T) {
	var out bytes.Buffer
	flags := LogFlags{Level: "debug", Format: "json"}
	log, err := flags.Logger(&out)
	require.NoError(t, err)
	for range 3 {
		log.Log(t.Context(), slog.LevelError, "again")
	}
	require.Equal(t, 1, strings.Count(out.String(), `"level":"ERROR"`))
	require.Equal(t, 2, strings.Count(out.String(), `"level":"DEBUG"`))
}
