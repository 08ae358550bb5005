package agent

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// invalidReplacement stands for bytes that are no UTF-8.
const invalidReplacement = "\uFFFD"

// clipText is the text as it comes back from the log: what is longer, or no UTF-8,
// would differ from it for ever, and be said again for ever.
func clipText(text string) string { return fsm.Clip(strings.ToValidUTF8(text, invalidReplacement)) }

// sanitizeTexts makes the texts of observations UTF-8. A text from a device, a path or a
// tool may hold any bytes, and one such text would keep the whole Report, with what
// other volumes said, from ever being sent.
func sanitizeTexts(observations []*fsmpb.Observation) {
	for _, o := range observations {
		sanitizeText(o.ProtoReflect())
	}
}

func sanitizeText(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				if f.Message() != nil {
					sanitizeText(v.List().Get(i).Message())
				}
			}
		case f.Message() != nil:
			sanitizeText(v.Message())
		case f.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
			m.Set(f, protoreflect.ValueOfString(strings.ToValidUTF8(v.String(), invalidReplacement)))
		}
		return true
	})
}
