package drbd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The device of the dump ends in word 255 of 512. What is marked beyond it is no block; what is marked in its last word is.
func TestMarksBeyondTheDeviceAreNoBlocks(t *testing.T) {
	const zeroes = "    512 times 0x0000000000000000;"
	whole := string(readDump(t, "dump-v08-whole"))
	for name, tc := range map[string]struct {
		words string
		want  int64
	}{
		"beyond the end":            {"256 times 0x0000000000000000;\n256 times 0x0000001A0000000A;", 0},
		"words beyond the end":      {"256 times 0x0000000000000000;\n0x0000001A0000000A; 0x00000000000445D3;\n254 times 0x0000000000000000;", 0},
		"in the last word":          {"255 times 0x0000000000000000;\n0x0000000000000100; 0x00000000000445D3;\n255 times 0x0000000000000000;", 1},
		"in the first word":         {"0x0000000000000001;\n511 times 0x0000000000000000;", 1},
		"a run across the end":      {"250 times 0x0000000000000000;\n262 times 0x0000000000000003;", 12},
		"a bitmap without its tail": {"256 times 0x0000000000000000;", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parseDump([]byte(strings.Replace(whole, zeroes, tc.words, 1)))
			require.NoError(t, err)
			require.Equal(t, tc.want, m.GetPeers()[0].GetOutOfSyncBits())
		})
	}
	unknown := strings.Replace(whole, "bm-byte-per-bit", "bm-byte", 1)
	m, err := parseDump([]byte(strings.Replace(unknown, zeroes, "511 times 0x0000000000000000;\n0x0000000000000001;", 1)))
	require.NoError(t, err)
	require.EqualValues(t, 1, m.GetPeers()[0].GetOutOfSyncBits(), "it is not said where the device ends")
	_, err = parseDump([]byte(strings.Replace(whole, zeroes, "255 times 0x0000000000000000;", 1)))
	require.ErrorContains(t, err, "whole device")
}
