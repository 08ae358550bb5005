package lvm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
)

const testChunk = 64 << 10

// feed gives a page what a tool printed, in pieces of a length.
func feed(g *page, text string, piece int) error {
	var stopped error
	out := &lines{each: g.take, stop: func(cause error) { stopped = cause }}
	for len(text) > 0 {
		n := min(piece, len(text))
		if wrote, err := out.Write([]byte(text[:n])); wrote != n || err != nil {
			return fmt.Errorf("wrote %d of %d: %w", wrote, n, err)
		}
		text = text[n:]
	}
	return errors.Join(out.err, stopped)
}

func TestWhatTheThinToolsPrintIsRead(t *testing.T) {
	delta := asked{parse: differences, begins: `<diff left="3" right="2"`}
	dump := asked{parse: mappings, begins: `<device dev_id="2" `}
	for name, tc := range map[string]struct {
		asked
		file       string
		from, size int64
		want       []executor.Extent
		silent     bool
	}{
		"what differs": {asked: delta, file: "thin_delta.xml", size: 16781312,
			want: []executor.Extent{{Offset: 0, Length: testChunk}, {Offset: 3 * testChunk, Length: 4 * testChunk}, {Offset: 40 * testChunk, Length: testChunk}}},
		"from the middle of a range": {asked: delta, file: "thin_delta.xml", from: 4*testChunk + 4096, size: 16781312,
			want: []executor.Extent{{Offset: 4*testChunk + 4096, Length: 3*testChunk - 4096}, {Offset: 40 * testChunk, Length: testChunk}}},
		"not beyond the volume's end": {asked: delta, file: "thin_delta.xml", size: 40*testChunk + 512,
			want: []executor.Extent{{Offset: 0, Length: testChunk}, {Offset: 3 * testChunk, Length: 4 * testChunk}, {Offset: 40 * testChunk, Length: 512}}},
		"what is there": {asked: dump, file: "thin_dump.xml", size: 16781312,
			want: []executor.Extent{{Offset: testChunk, Length: 6 * testChunk}, {Offset: 40 * testChunk, Length: testChunk}}},
		"a device that is not there": {asked: dump, file: "thin_dump-none.xml", size: 16781312, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 7, 4096} {
				g := &page{asked: tc.asked, chunk: testChunk, from: tc.from, size: tc.size, limit: 10}
				require.NoError(t, feed(g, string(captured(t, tc.file)), piece))
				require.Equal(t, tc.want, g.extents)
				require.True(t, g.whole)
				require.Equal(t, !tc.silent, g.began)
				require.Equal(t, tc.size, g.next())
			}
		})
	}
}

func TestALongAnswerIsReadInPages(t *testing.T) {
	var text strings.Builder
	text.WriteString("<superblock uuid=\"\">\n<diff left=\"1\" right=\"2\">\n")
	for n := range 10 {
		fmt.Fprintf(&text, "    <different begin=\"%d\" length=\"1\"/>\n", 2*n)
	}
	text.WriteString("  </diff>\n</superblock>\n")
	var all []executor.Extent
	rounds := 0
	for from := int64(0); from < 100*testChunk; rounds++ {
		g := &page{asked: asked{parse: differences, begins: "<diff "}, chunk: testChunk, from: from, size: 100 * testChunk, limit: 3}
		if err := feed(g, text.String(), 100); g.full {
			require.ErrorIs(t, err, errPageFull, "the tool is stopped")
		} else {
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(g.extents), 3)
		all = append(all, g.extents...)
		from = g.next()
	}
	require.Equal(t, 4, rounds)
	require.Len(t, all, 10)
	for n, e := range all {
		require.Equal(t, executor.Extent{Offset: int64(2*n) * testChunk, Length: testChunk}, e)
	}
}

func TestRangesThatCannotBeAreErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no number":             `<different begin="x" length="1"/>`,
		"no length":             `<different begin="1"/>`,
		"nothing long":          `<different begin="1" length="0"/>`,
		"below zero":            `<different begin="-1" length="1"/>`,
		"beyond all":            `<different begin="9223372036854775807" length="1"/>`,
		"beyond all in bytes":   `<different begin="140737488355328" length="9223231299366420479"/>`,
		"what is not known":     `<ref name="3"/>`,
		"backwards":             "<different begin=\"5\" length=\"5\"/>\n<different begin=\"7\" length=\"1\"/>",
		"a line without an end": strings.Repeat("x", 2*lineLimit),
	} {
		t.Run(name, func(t *testing.T) {
			g := &page{asked: asked{parse: differences}, chunk: testChunk, size: 1 << 40, limit: 10}
			require.Error(t, feed(g, text+"\n", 4096))
		})
	}
}
