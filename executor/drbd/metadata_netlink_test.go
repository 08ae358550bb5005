package drbd

import (
	"encoding/binary"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
)

// mandatory is DRBD_GENLA_F_MANDATORY, which the kernel sets in the types it sends.
const mandatory = 1 << 14

// statusReply is an answer of the kernel's about a minor, with these UUIDs.
func statusReply(t testing.TB, minor, code uint32, uuids ...uint64) []byte {
	t.Helper()
	header := make([]byte, netlinkHeader)
	binary.NativeEndian.PutUint32(header, minor)
	binary.NativeEndian.PutUint32(header[4:], code)
	encoder := netlink.NewAttributeEncoder()
	encoder.Bytes(2|netlink.Nested, nil) // the context comes first
	encoder.Nested(attrStateInfo|mandatory, func(state *netlink.AttributeEncoder) error {
		state.Uint32(2, 0x1a1)
		state.Uint64(4|mandatory, 77) // ed_uuid is that of the data that are exposed, not of the disk
		if len(uuids) > 0 {
			var all []byte
			for _, uuid := range uuids {
				all = binary.NativeEndian.AppendUint64(all, uuid)
			}
			state.Bytes(attrUUIDs|mandatory, all)
		}
		return nil
	})
	attributes, err := encoder.Encode()
	require.NoError(t, err)
	return append(header, attributes...)
}

func TestParseStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		reply []byte
		want  diskMetadata
		fails bool
	}{
		"a disk":                    {reply: statusReply(t, 7, retNoError, 0x82CB38916AD3EDA2, 0, 5, 6), want: diskMetadata{found: true, uuid: 0x82CB38916AD3EDA2}},
		"the bit that says primary": {reply: statusReply(t, 7, retNoError, 0x82CB38916AD3EDA3, 0, 5, 6), want: diskMetadata{found: true, uuid: 0x82CB38916AD3EDA2}},
		"it left its peer behind":   {reply: statusReply(t, 7, retNoError, 0x82CB38916AD3EDA3, 0x11, 5, 6), want: diskMetadata{found: true, uuid: 0x82CB38916AD3EDA2, bitmap: 0x10}},
		"UUIDs that are cut":        {reply: statusReply(t, 7, retNoError, 1), fails: true},
		"just created":              {reply: statusReply(t, 7, retNoError, 4, 0, 0, 0), want: diskMetadata{found: true, fresh: true}},
		"no disk":                   {reply: statusReply(t, 7, retNoError)},
		"another minor":             {reply: statusReply(t, 8, retNoError, 1, 2, 3, 4), fails: true},
		"no such minor":             {reply: statusReply(t, 7, 127), fails: true},
		"nothing":                   {fails: true},
		"a header that is cut":      {reply: statusReply(t, 7, retNoError)[:6], fails: true},
		"attributes that are cut":   {reply: statusReply(t, 7, retNoError, 1, 2, 3, 4)[:30], fails: true},
		"no state":                  {reply: statusReply(t, 7, retNoError)[:netlinkHeader], fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			md, err := parseStatus(7, tc.reply)
			require.Equal(t, tc.fails, err != nil, err)
			require.Equal(t, tc.want, md)
		})
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add(statusReply(f, 7, retNoError, 1, 2, 3, 4))
	f.Add(statusReply(f, 7, retNoError))
	f.Fuzz(func(_ *testing.T, reply []byte) { _, _ = parseStatus(7, reply) })
}
