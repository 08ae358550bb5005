package cli

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongWorkTellsHowFarItIs(t *testing.T) {
	var told bytes.Buffer
	p := newProgress(&told, "backup")
	w := p.writer(io.Discard)
	p.next = time.Now().Add(time.Hour)
	_, err := w.Write(make([]byte, 3<<20))
	require.NoError(t, err)
	require.Empty(t, told.String())
	for range 2 {
		told.Reset()
		p.next = time.Time{}
		_, err = w.Write(nil)
		require.NoError(t, err)
		require.Equal(t, "backup: 3 MiB\n", told.String())
	}
}
