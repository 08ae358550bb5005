package agent

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// invalidReplacement replaces bytes that are not UTF-8.
const invalidReplacement = "\uFFFD"

// clipText is the text as the log keeps it. A longer one, or one that is not UTF-8, would
// always differ from the log's and be reported again for ever.
func clipText(text string) string { return fsm.Clip(strings.ToValidUTF8(text, invalidReplacement)) }

// sanitizeTexts makes the texts of observations valid UTF-8. A text from a device, a path or a
// tool may hold any bytes, and one that is invalid would keep the whole Report, with the
// observations of other volumes, from being sent.
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
