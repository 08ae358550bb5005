package admin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// orderedMessage marshals a message for JSON and YAML: fields in the order and with the names of the
// .proto file, numbers as numbers, bytes in hex, enums by name, empty lists as []. Of a oneof only
// the field that is set is written.
type orderedMessage struct{ m protoreflect.ProtoMessage }

// MarshalJSON writes the fields in order.
func (p orderedMessage) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	m := p.m.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && f.ContainingOneof() != nil && !m.Has(f) {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		value, err := json.Marshal(orderedField(m, f))
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", f.FullName(), err)
		}
		fmt.Fprintf(&out, "%q:%s", f.Name(), value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func orderedField(m protoreflect.Message, f protoreflect.FieldDescriptor) any {
	if !f.IsList() {
		return orderedValue(f, m.Get(f))
	}
	list := m.Get(f).List()
	out := make([]any, 0, list.Len())
	for i := range list.Len() {
		out = append(out, orderedValue(f, list.Get(i)))
	}
	return out
}

func orderedValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if !v.Message().IsValid() {
			return nil
		}
		return orderedMessage{v.Message().Interface()}
	case protoreflect.BytesKind:
		return hex.EncodeToString(v.Bytes())
	case protoreflect.EnumKind:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
			return string(value.Name())
		}
		return int32(v.Enum())
	default:
		return v.Interface()
	}
}
