package loopfile

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// While one caller measures how fast the pool copies, which a slow disk makes long, another one
// gives up with its context, and who asks for something else does not wait at all.
func TestNobodyWaitsForAMeasurementBeyondItsContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	_, err := Init(dir)
	require.NoError(t, err)
	p, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	p.abilities.measuring <- struct{}{} // somebody measures
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := p.CopyRate(ctx)
		waiting <- err
	}()
	p.SharesBlocks()
	cancel()
	require.ErrorIs(t, <-waiting, context.Canceled)
	<-p.abilities.measuring
	first, err := p.CopyRate(t.Context())
	require.NoError(t, err)
	require.Positive(t, first)
	again, err := p.CopyRate(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again, "measured once")
}
