package records

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Who asks for the acted epoch holds the lock that every call and every update needs: a disk that
// does not answer must keep none of them waiting.
func TestAskingForTheActedEpochDoesNotWaitForTheDisk(t *testing.T) {
	for name, failure := range map[string]error{"the write succeeds": nil, "the write fails": errors.New("input/output error")} {
		t.Run(name, func(t *testing.T) {
			s, err := OpenActedEpoch(t.TempDir())
			require.NoError(t, err)
			first, second := fsm.Epoch{Incarnation: 1, Index: 5}, fsm.Epoch{Incarnation: 1, Index: 9}
			require.NoError(t, s.Persist(first, []byte("one")))
			begun, disk := make(chan struct{}), make(chan error)
			s.write = func([]byte, bool) error { close(begun); return <-disk }
			ended := make(chan error)
			go func() { ended <- s.Persist(second, []byte("one")) }()
			<-begun
			current, _ := s.Current()
			require.Equal(t, first, current, "nothing was acted on yet")
			require.Equal(t, second, s.OnDisk(), "S14: it may be on disk already")
			s.Advance(fsm.Epoch{Incarnation: 1, Index: 6}, nil)
			disk <- failure
			require.ErrorIs(t, <-ended, failure)
			want := second
			if failure != nil {
				want = first
			}
			require.Equal(t, want, s.OnDisk())
		})
	}
}
