package fsm

import (
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A cluster runs at a feature level, which only rises. Builds that understand
// different levels apply one log: at level N each decides as the build that
// introduced N did, to the byte of every record, so that their states are equal (S72).
const (
	// Level1 is what every build understands.
	Level1 uint32 = 1
	// Level2 is the first gated level: code that differs from level 1 asks atLevel(Level2).
	Level2 uint32 = 2
	// Level3 has the commands of operators: adoption after a restore, revocation, maintenance.
	Level3 uint32 = 3
	// MaxFeatureLevel is the highest feature level that this build understands.
	MaxFeatureLevel = Level3
)

// ErrNewer: a dump is of a format or of a feature level that this build does not understand. It is
// not damaged: a newer build reads it.
var ErrNewer = errors.New("it is of a newer build")

// atLevel tells whether the cluster runs at this level or above.
func (s *State) atLevel(level uint32) bool { return s.cluster.FeatureLevel >= level }

// level3 tells whether the cluster runs at level 3 or above.
func (s *State) level3() bool { return s.atLevel(Level3) }

// level2 tells whether the cluster runs at level 2 or above.
func (s *State) level2() bool { return s.atLevel(Level2) }

// LeastLevel is the lowest feature level whose members understand the command, to be
// written into its envelope. It follows from the fields that are set, by the option
// `since` in command.proto; a command that sets a level needs that one.
func LeastLevel(cmd *fsmpb.Command) uint32 {
	level, _ := commandShape.inspect(cmd.ProtoReflect())
	switch body := cmd.GetBody().(type) {
	case *fsmpb.Command_SetFeatureLevel:
		level = max(level, body.SetFeatureLevel.GetLevel())
	case *fsmpb.Command_Bootstrap:
		level = max(level, body.Bootstrap.GetFeatureLevel())
	}
	return level
}

// TooNew refuses a command that a cluster of this level must not have on its log: its
// members would fault on it, or ignore the fields that they do not know and diverge.
// Every proposer asks it first (S72). A command that sets a level carries that level itself.
func TooNew(level uint32, cmd *fsmpb.Command) *Rejection {
	needs, unknown := commandShape.inspect(cmd.ProtoReflect())
	_, raises := cmd.GetBody().(*fsmpb.Command_SetFeatureLevel)
	switch needs = max(needs, cmd.GetSchemaVersion()); {
	case cmd.GetBody() == nil || unknown:
		return Reject(Unsupported, "the command is of a newer build: the leader does not know all of it; upgrade the controllers first")
	case needs > level && !raises:
		return Reject(Unsupported, "the command needs feature level %d, the cluster runs at %d: `holdfast upgrade finish` raises it when all understand it", needs, level)
	}
	return nil
}

// Trim clears the fields of a part of a command that a level does not know, so that it is what
// a build of that level would have made. A list keeps its elements.
func Trim(part proto.Message, level uint32) {
	m := part.ProtoReflect()
	if s, ok := shapes[m.Descriptor().FullName()]; ok {
		s.trim(m, level)
	}
}

func (s *shape) trim(m protoreflect.Message, level uint32) {
	for _, f := range s.fields {
		f.trim(m, level)
	}
	for _, o := range s.oneofs {
		if set := m.WhichOneof(o.oneof); set != nil {
			o.fields[set.Number()].trim(m, level)
		}
	}
}

func (f shapeField) trim(m protoreflect.Message, level uint32) {
	switch {
	case !m.Has(f.field):
	case f.since > level:
		m.Clear(f.field)
	case f.inside == nil:
	case f.field.IsList():
		list := m.Get(f.field).List()
		for i := range list.Len() {
			f.inside.trim(list.Get(i).Message(), level)
		}
	default:
		f.inside.trim(m.Get(f.field).Message(), level)
	}
}

// shape lists what decides the level of a message: fields that came after level 1, and
// the messages inside it. It is built once, so that an inspection does not visit scalars.
type shape struct {
	fields []shapeField
	oneofs []shapeOneof
}

type shapeField struct {
	field  protoreflect.FieldDescriptor
	since  uint32
	inside *shape // nil for scalars
}

type shapeOneof struct {
	oneof  protoreflect.OneofDescriptor
	fields map[protoreflect.FieldNumber]shapeField
}

// shapes has the shape of Command and of every message inside one.
var shapes = map[protoreflect.FullName]*shape{}

var commandShape = shapeOf((&fsmpb.Command{}).ProtoReflect().Descriptor(), shapes)

func shapeOf(d protoreflect.MessageDescriptor, known map[protoreflect.FullName]*shape) *shape {
	if s, ok := known[d.FullName()]; ok {
		return s
	}
	s := &shape{}
	known[d.FullName()] = s
	for i := range d.Oneofs().Len() {
		s.oneofs = append(s.oneofs, shapeOneof{oneof: d.Oneofs().Get(i), fields: map[protoreflect.FieldNumber]shapeField{}})
	}
	for i := range d.Fields().Len() {
		f := shapeField{field: d.Fields().Get(i), since: sinceOf(d.Fields().Get(i))}
		if m := f.field.Message(); m != nil {
			f.inside = shapeOf(m, known)
		}
		switch o := f.field.ContainingOneof(); {
		case o != nil:
			s.oneofs[o.Index()].fields[f.field.Number()] = f
		case f.inside != nil || f.since > Level1:
			s.fields = append(s.fields, f)
		}
	}
	return s
}

// sinceOf is the level that a field needs, by its option `since`.
func sinceOf(f protoreflect.FieldDescriptor) uint32 {
	since, _ := proto.GetExtension(f.Options(), fsmpb.E_Since).(uint32)
	return max(Level1, since)
}

// inspect is the least level that the message needs, and whether it has a field that
// this build does not know.
func (s *shape) inspect(m protoreflect.Message) (level uint32, unknown bool) {
	level, unknown = Level1, len(m.GetUnknown()) != 0
	inspectField := func(f shapeField) {
		within, fieldUnknown := f.inspect(m)
		level, unknown = max(level, within), unknown || fieldUnknown
	}
	for _, f := range s.fields {
		if m.Has(f.field) {
			inspectField(f)
		}
	}
	for _, o := range s.oneofs {
		if set := m.WhichOneof(o.oneof); set != nil {
			inspectField(o.fields[set.Number()])
		}
	}
	return level, unknown
}

// inspect is inspect of one field that is set.
func (f shapeField) inspect(m protoreflect.Message) (level uint32, unknown bool) {
	level = f.since
	switch {
	case f.inside == nil:
	case f.field.IsList():
		list := m.Get(f.field).List()
		for i := range list.Len() {
			within, fieldUnknown := f.inside.inspect(list.Get(i).Message())
			level, unknown = max(level, within), unknown || fieldUnknown
		}
	default:
		within, fieldUnknown := f.inside.inspect(m.Get(f.field).Message())
		level, unknown = max(level, within), fieldUnknown
	}
	return level, unknown
}
