package drbd

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Flags in metadata (enum mdf_flag and mdf_peer_flag of DRBD 8.4 and 9). Those of a peer are among the others in format v08.
const (
	flagConsistent        = 1 << 0
	flagPrimary           = 1 << 1
	flagConnected         = 1 << 2
	flagFullSync          = 1 << 3
	flagWasUpToDate       = 1 << 4
	flagPeerOutdated      = 1 << 5
	flagCrashedPrimary    = 1 << 6
	flagActivityLogClean  = 1 << 7
	flagPrimaryLostQuorum = 1 << 9 // v09 only

	peerFlagOutdated = 1 << 1
	peerFlagFullSync = 1 << 3
)

// dumpParser reads the output of `drbdmeta dump-md`, line by line. Words that it does not know are passed over; what a
// decision needs and is not there is an error.
type dumpParser struct {
	format     uint32
	numbers    map[string]uint64 // of settings outside of blocks, by name
	uuids      []uint64          // of v08: current, bitmap, two of history
	peers      map[int]map[string]uint64
	bitmaps    map[int]*dumpedBitmap // of v09 by index, of v08 the one as 0; without an entry no line of it was read
	block      string                // that the line is in
	blockIndex int
}

// giFlags are the flags that `drbdmeta get-gi` prints behind the UUIDs of format v08, in its order.
var giFlags = []uint64{flagConsistent, flagWasUpToDate, flagPrimary, flagConnected, flagFullSync, flagPeerOutdated, flagCrashedPrimary}

var (
	giFlagsLine = regexp.MustCompile(`(?m)^(?:[0-9A-F]{16}:){4}([01](?::[01]){6})$`)
	flagsLine   = regexp.MustCompile(`(?m)^(\s*flags) 0x[0-9A-Fa-f]+;`)
)

// setFlags writes the flags that get-gi printed into a dump of format v08, whose activity log is clean: it could be dumped.
func setFlags(dump []byte, gi string) ([]byte, error) {
	m := giFlagsLine.FindStringSubmatch(gi)
	if m == nil || len(flagsLine.FindAllIndex(dump, -1)) != 1 {
		return nil, fmt.Errorf("there are no flags in %q, or no place for them", gi)
	}
	flags := uint64(flagActivityLogClean)
	for i, text := range strings.Split(m[1], ":") {
		if text == "1" {
			flags |= giFlags[i]
		}
	}
	return flagsLine.ReplaceAll(dump, fmt.Appendf(nil, "${1} 0x%08X;", flags)), nil
}

var (
	dumpBlock   = regexp.MustCompile(`^([a-z-]+)(?:\[(\d+)\])? \{$`)
	dumpSetting = regexp.MustCompile(`^([a-z0-9-]+) "?(-?[0-9a-fA-FxX]+|v0[89])"?;$`)
	dumpRun     = regexp.MustCompile(`^(\d+) times 0x([0-9A-Fa-f]{1,16});$`)
	dumpWord    = regexp.MustCompile(`^0x([0-9A-Fa-f]{1,16});$`)
)

// parseDump reads a dump of either format.
func parseDump(text []byte) (*fsmpb.DrbdMetadata, error) {
	p := &dumpParser{numbers: map[string]uint64{}, peers: map[int]map[string]uint64{}, bitmaps: map[int]*dumpedBitmap{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("read a dump of DRBD's metadata: line %q: %w", line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read a dump of DRBD's metadata: %w", err)
	}
	m, err := p.metadata()
	if err != nil {
		return nil, fmt.Errorf("read a dump of DRBD's metadata: %w", err)
	}
	return m, nil
}

func (p *dumpParser) line(line string) error {
	if m := dumpBlock.FindStringSubmatch(line); m != nil {
		p.block, p.blockIndex = m[1], 0
		if m[2] != "" {
			n, err := strconv.Atoi(m[2])
			p.blockIndex = n
			return err
		}
		return nil
	}
	switch {
	case line == "}":
		p.block = ""
		return nil
	case p.block == "bm" || p.block == "bitmap":
		return p.bitmapLine(line)
	case p.block == "uuid" && strings.HasPrefix(line, "0x"):
		return eachWord(line, func(n uint64) { p.uuids = append(p.uuids, n) })
	case p.block == "history-uuids":
		return nil
	}
	return p.setting(line)
}

func (p *dumpParser) setting(line string) error {
	m := dumpSetting.FindStringSubmatch(line)
	if m == nil {
		return nil // of a newer tool
	}
	if m[1] == "version" {
		n, err := strconv.ParseUint(strings.TrimPrefix(m[2], "v"), 10, 32)
		p.format = uint32(n)
		return err
	}
	n, err := parseNumber(m[2])
	if err != nil {
		return err
	}
	to := p.numbers
	if p.block == "peer" {
		if p.peers[p.blockIndex] == nil {
			p.peers[p.blockIndex] = map[string]uint64{}
		}
		to = p.peers[p.blockIndex]
	}
	to[m[1]] = n
	return nil
}

// parseNumber reads a number, of which a negative one is -1 only, as math.MaxUint64.
func parseNumber(text string) (uint64, error) {
	if text == "-1" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(text, 0, 64)
}

// bitmapLine counts the marks of a line: some words, or one that is repeated. A line that is neither is an error: a mark
// that is passed over would be a block that is not copied.
func (p *dumpParser) bitmapLine(line string) error {
	b := p.bitmaps[p.blockIndex]
	if b == nil {
		b = &dumpedBitmap{used: p.bitmapWords()}
		p.bitmaps[p.blockIndex] = b
	}
	m := dumpRun.FindStringSubmatch(line)
	if m == nil {
		return eachWord(line, func(n uint64) { b.add(1, n) })
	}
	times, err := strconv.ParseInt(m[1], 10, 40)
	if err != nil {
		return err
	}
	word, err := strconv.ParseUint(m[2], 16, 64)
	b.add(times, word)
	return err
}

func eachWord(line string, yield func(uint64)) error {
	for _, field := range strings.Fields(line) {
		m := dumpWord.FindStringSubmatch(field)
		if m == nil {
			return fmt.Errorf("%q is no word", field)
		}
		n, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			return err
		}
		yield(n)
	}
	return nil
}

// metadata is what was read.
func (p *dumpParser) metadata() (*fsmpb.DrbdMetadata, error) {
	for _, name := range []string{"la-size-sect", "flags"} {
		if _, ok := p.numbers[name]; !ok {
			return nil, fmt.Errorf("there is no %s in it", name)
		}
	}
	size := p.numbers["la-size-sect"]
	if p.block != "" || size > math.MaxInt64/sectorBytes {
		return nil, fmt.Errorf("it ends too early, or its size of %d sectors is none", size)
	}
	flags := p.numbers["flags"]
	m := &fsmpb.DrbdMetadata{
		Format: p.format, ContentBytes: int64(size) * sectorBytes,
		Consistent: flags&flagConsistent != 0, UpToDate: flags&flagWasUpToDate != 0, Primary: flags&(flagPrimary|flagCrashedPrimary) != 0,
	}
	switch p.format {
	case fsm.DRBDFormat8:
		return m, p.fillV08(m, flags)
	case fsm.DRBDFormat9:
		return m, p.fillV09(m, flags)
	}
	return nil, fmt.Errorf("its format v%02d is neither v08 nor v09", p.format)
}

func (p *dumpParser) fillV08(m *fsmpb.DrbdMetadata, flags uint64) error {
	if len(p.uuids) < 2 {
		return fmt.Errorf("there are %d UUIDs in it", len(p.uuids))
	}
	marks, err := p.marks(0)
	if err != nil && m.GetContentBytes() > 0 {
		return err
	}
	m.CurrentUuid = p.uuids[0] &^ 1
	m.Peers = []*fsmpb.DrbdPeer{{BitmapUuid: p.uuids[1] &^ 1, Behind: flags&(flagPeerOutdated|flagFullSync) != 0, OutOfSyncBits: marks}}
	return nil
}

func (p *dumpParser) fillV09(m *fsmpb.DrbdMetadata, flags uint64) error {
	current, ok := p.numbers["current-uuid"]
	node, known := p.numbers["node-id"]
	if !ok || !known {
		return fmt.Errorf("there is no current-uuid or no node-id in it")
	}
	m.CurrentUuid, m.DrbdNode = current&^1, nodeNumber(node)
	m.Primary = m.Primary || flags&flagPrimaryLostQuorum != 0
	var ids []int
	for id := range p.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		peer := p.peers[id]
		index, hasIndex := peer["bitmap-index"]
		if !hasIndex || nodeNumber(index) < 0 {
			continue // no bitmap is about it: it has no disk, or is none
		}
		since, hasUUID := peer["bitmap-uuid"]
		flags, hasFlags := peer["flags"]
		if !hasUUID || !hasFlags {
			return fmt.Errorf("there is no bitmap-uuid or there are no flags of peer %d in it", id)
		}
		marks, err := p.marks(int(index))
		if err != nil && m.GetContentBytes() > 0 {
			return fmt.Errorf("of peer %d: %w", id, err)
		}
		m.Peers = append(m.Peers, &fsmpb.DrbdPeer{
			DrbdNode: int32(id), BitmapUuid: since &^ 1, Behind: flags&(peerFlagOutdated|peerFlagFullSync) != 0, OutOfSyncBits: marks,
		})
	}
	return nil
}

// nodeNumber is a number of a node or of a bitmap; -1: none.
func nodeNumber(n uint64) int32 {
	if n > math.MaxInt16 {
		return -1
	}
	return int32(n)
}
