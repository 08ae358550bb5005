package fsm

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// From level 3 on the entries are a chain: each one's link is the hash of the link before it, the entry's index, its command and
// what was decided. The state has the head, so that who alters an entry of a journal has to alter the state of every member too.
// Commands and outcomes are hashed field by field, as records are: their bytes may differ between builds, their fields do not.

// kindLink begins what is hashed for a link.
const kindLink byte = 127

// fieldChain precedes the head in what is hashed of the cluster.
const fieldChain = 127

// ChainLink is the link of an entry behind the link prev; the first one of a chain has none before it. The text of a rejection
// is not in it: it is for people, and two builds may word it differently.
func ChainLink(prev []byte, index uint64, cmd *fsmpb.Command, outcome *fsmpb.Outcome) []byte {
	return chainLink(&encoder{}, prev, index, func(e *encoder) { e.message(cmd.ProtoReflect()) }, outcome)
}

// SkippedLink is ChainLink of an entry that operators had every member pass over: a build that cannot read its command has the
// hash of its content.
func SkippedLink(prev []byte, index uint64, hash []byte, outcome *fsmpb.Outcome) []byte {
	return chainLink(&encoder{}, prev, index, func(e *encoder) { e.bytes(hash) }, outcome)
}

func chainLink(e *encoder, prev []byte, index uint64, content func(*encoder), outcome *fsmpb.Outcome) []byte {
	e.begin(kindLink)
	e.bytes(prev)
	e.u64(index)
	content(e)
	hashOutcome(e, outcome, true)
	link := e.sum().bytes()
	return link[:]
}

// extendChain adds an entry that was decided. A chain begins only with an entry of which every member knows that it does, which
// raised the level or began a new life of the cluster: a member that applies its first entry with this build may be later than others.
func (s *State) extendChain(mayBegin bool, index uint64, content func(*encoder), outcome *fsmpb.Outcome) {
	if s.level3() && (mayBegin || len(s.cluster.Chain) != 0) {
		s.cluster.Chain = chainLink(&s.scratch, s.cluster.Chain, index, content, outcome)
	}
}

// hashChain comes after the non-voters, whose tag tells whether there are any.
func hashChain(e *encoder, c *Cluster) {
	if len(c.Chain) == 0 {
		return
	}
	if len(c.NonVoters) == 0 {
		hashAbsentLists(e, c)
	}
	e.u64(fieldChain)
	e.bytes(c.Chain)
}

// checkChain: there is a chain from level 3 on only.
func (s *State) checkChain() error {
	if n := len(s.cluster.Chain); n != 0 && (n != hashLen || !s.level3()) {
		return violated("S112", "the head of the chain of entries has %d bytes at feature level %d", n, s.cluster.FeatureLevel)
	}
	return nil
}

// message writes the fields that are set, in the order of their numbers, and ends with a zero.
func (e *encoder) message(m protoreflect.Message) {
	for _, f := range encodedFields[m.Descriptor().FullName()] {
		if f.oneof != nil {
			if f.field = m.WhichOneof(f.oneof); f.field == nil {
				continue
			}
		} else if !m.Has(f.field) {
			continue
		}
		e.u64(uint64(f.field.Number())) //nolint:gosec // field numbers are above zero
		if !f.field.IsList() {
			e.value(f.field, m.Get(f.field))
			continue
		}
		list := m.Get(f.field).List()
		e.u64(uint64(list.Len())) //nolint:gosec // a length
		for i := range list.Len() {
			e.value(f.field, list.Get(i))
		}
	}
	e.u64(0)
}

func (e *encoder) value(f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch f.Kind() { // by kind: v.Interface would allocate each text
	case protoreflect.BoolKind:
		e.bool(v.Bool())
	case protoreflect.StringKind:
		e.str(v.String())
	case protoreflect.BytesKind:
		e.bytes(v.Bytes())
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		e.i64(v.Int())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		e.u64(v.Uint())
	case protoreflect.EnumKind:
		e.i64(int64(v.Enum()))
	case protoreflect.MessageKind:
		e.message(v.Message())
	default:
		panic("no form to hash " + string(f.FullName()) + " in")
	}
}

// encodedField is a field that is in no oneof, or a oneof.
type encodedField struct {
	field protoreflect.FieldDescriptor
	oneof protoreflect.OneofDescriptor
}

func (f encodedField) number() protoreflect.FieldNumber {
	if f.oneof == nil {
		return f.field.Number()
	}
	first := f.oneof.Fields().Get(0).Number()
	for i := range f.oneof.Fields().Len() {
		first = min(first, f.oneof.Fields().Get(i).Number())
	}
	return first
}

// encodedFields are the fields of Command and of every message inside one, in their order.
var encodedFields = func() map[protoreflect.FullName][]encodedField {
	known := map[protoreflect.FullName][]encodedField{}
	addEncodedFields(known, (&fsmpb.Command{}).ProtoReflect().Descriptor())
	return known
}()

func addEncodedFields(known map[protoreflect.FullName][]encodedField, d protoreflect.MessageDescriptor) {
	if _, done := known[d.FullName()]; done {
		return
	}
	var all []encodedField
	known[d.FullName()] = nil // in case it has itself in it
	for i := range d.Oneofs().Len() {
		all = append(all, encodedField{oneof: d.Oneofs().Get(i)})
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if f.Message() != nil {
			addEncodedFields(known, f.Message())
		}
		if f.ContainingOneof() == nil {
			all = append(all, encodedField{field: f})
		}
	}
	slices.SortFunc(all, func(a, b encodedField) int { return cmp.Compare(a.number(), b.number()) })
	known[d.FullName()] = all
}
