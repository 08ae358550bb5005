package fsm

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// level1Logs are ten logs that commit b895048 played: 6180 commands, of which it refused
// 3075 with 845 different texts. level1Digest is the sha256 over what it made of each:
// the state's hash, and the reason and the text of the refusal. Neither is ever written
// again: there is no other way to know what that build said.
const (
	level1Logs   = "testdata/level1.log.gz"
	level1Digest = "testdata/level1.digest"
)

// S72: at level 1 this build says and records what the build that introduced it did, to
// the byte of every refusal's text, and after every entry.
func TestS72_Level1DecidesAsItDid(t *testing.T) {
	packed, err := os.ReadFile(level1Logs)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	digest, refused, texts := sha256.New(), 0, map[string]bool{}
	s := New()
	for _, e := range readLog(t, bufio.NewReader(z)) {
		if e.index <= s.Cluster().Index {
			require.NoError(t, s.Check())
			require.LessOrEqual(t, s.Cluster().FeatureLevel, Level1)
			s = New() // another log begins
		}
		said := s.Apply(e.index, e.cmd).Outcome.GetRejection()
		hash := s.Hash()
		digest.Write(hash[:])
		digest.Write(fmt.Appendf(nil, "%d %s\n", said.GetReason(), said.GetMessage()))
		if said != nil {
			refused++
			texts[said.GetMessage()] = true
		}
	}
	want, err := os.ReadFile(level1Digest)
	require.NoError(t, err)
	require.Equal(t, 3075, refused)
	require.Equal(t, 845, len(texts), "different texts")
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(digest.Sum(nil)))
}
