package server

import (
	"strings"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// The size limits of the CSI spec, in bytes.
const (
	// MaxMap is the limit of a map's keys and values together.
	MaxMap      = 4096
	maxNodeID   = 256
	maxFlags    = 4096
	maxPath     = 4095 // PATH_MAX without its final NUL
	maxListItem = 4096
)

// maxStringOf holds the fields whose limit is not csiconv.MaxString. A zero means that
// the field's own handler checks it: a starting_token that is too long is ABORTED.
var maxStringOf = map[protoreflect.Name]int{
	"node_id":             maxNodeID,
	"target_path":         maxPath,
	"staging_target_path": maxPath,
	"volume_path":         maxPath,
	"starting_token":      0,
}

// startingOffset of a stream is not checked here: a negative one is OUT_OF_RANGE, by its
// handler.
const startingOffset = "starting_offset"

// CheckMessage applies what CSI demands of every message to one and to all that
// it holds: sizes of strings and maps, no banned control characters, no negative
// numbers, well-formed keys of secrets. The rejection (fsm.Invalid) names the
// field, never its value.
func CheckMessage(msg proto.Message) error {
	return checkFields(msg.ProtoReflect())
}

func checkFields(msg protoreflect.Message) error {
	var err error
	msg.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		err = checkField(field, value)
		return err == nil
	})
	return err
}

func checkField(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	switch {
	case field.IsMap():
		return checkMap(field, value.Map())
	case field.IsList():
		return checkList(field, value.List())
	}
	return checkValue(field, value)
}

func checkList(field protoreflect.FieldDescriptor, list protoreflect.List) error {
	total := 0
	for i := range list.Len() {
		item := list.Get(i)
		if err := checkItem(field, item); err != nil {
			return err
		}
		if field.Kind() == protoreflect.StringKind {
			total += len(item.String())
		}
	}
	if field.Name() == "mount_flags" && total > maxFlags {
		return fsm.Reject(fsm.Invalid, "%s has %d bytes, more than %d", field.Name(), total, maxFlags)
	}
	return nil
}

// checkItem is checkValue, but one mount flag may be as long as all of them.
func checkItem(field protoreflect.FieldDescriptor, item protoreflect.Value) error {
	if field.Name() == "mount_flags" {
		return checkString(field.Name(), item.String(), maxListItem)
	}
	return checkValue(field, item)
}

func checkValue(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return checkFields(value.Message())
	case protoreflect.StringKind:
		return checkString(field.Name(), value.String(), maxLength(field.Name()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		if value.Int() < 0 && field.Name() != startingOffset {
			return fsm.Reject(fsm.Invalid, "%s is negative", field.Name())
		}
	default: // CSI sets no limit for other kinds
	}
	return nil
}

func maxLength(name protoreflect.Name) int {
	if limit, overridden := maxStringOf[name]; overridden {
		return limit
	}
	return csiconv.MaxString
}

func checkString(name protoreflect.Name, text string, limit int) error {
	switch {
	case limit == 0:
		return nil
	case len(text) > limit:
		return fsm.Reject(fsm.Invalid, "%s has %d bytes, more than %d", name, len(text), limit)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, isForbidden):
		return fsm.Reject(fsm.Invalid, "%s holds a character that is not allowed", name)
	}
	return nil
}

// isForbidden are the control characters that CSI forbids: all but tab, line feed and
// carriage return.
func isForbidden(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return r < 0x20 || r >= 0x7f && r <= 0x9f
}

func checkMap(field protoreflect.FieldDescriptor, pairs protoreflect.Map) error {
	secret := isSecret(field)
	total := 0
	var err error
	pairs.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		total += len(key.String())
		if field.MapValue().Kind() == protoreflect.MessageKind {
			err = checkFields(value.Message())
			return err == nil
		}
		total += len(value.String())
		err = checkPair(field.Name(), key.String(), value.String(), secret)
		return err == nil
	})
	if err == nil && total > MaxMap {
		err = fsm.Reject(fsm.Invalid, "%s has %d bytes of keys and values, more than %d", field.Name(), total, MaxMap)
	}
	return err
}

func checkPair(name protoreflect.Name, key, value string, secret bool) error {
	switch {
	case secret && !isSecretKey(key):
		return fsm.Reject(fsm.Invalid, "a key of %s is not made of letters, digits, '-', '_' and '.'", name)
	case !utf8.ValidString(value):
		return fsm.Reject(fsm.Invalid, "a value of %s is no valid string", name)
	case strings.ContainsFunc(key, isForbidden):
		return fsm.Reject(fsm.Invalid, "a key of %s holds a character that is not allowed", name)
	}
	return nil
}

func isSecretKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !csiconv.IsAlphanumeric(r) && !strings.ContainsRune("-_.", r)
	})
}

func isSecret(field protoreflect.FieldDescriptor) bool {
	secret, _ := proto.GetExtension(field.Options(), csi.E_CsiSecret).(bool)
	return secret
}
