package session

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// converter translates between a Go struct and its message, field by field: a field of one is
// that of the same name in the other, whatever the case of its letters. What copies them is
// chosen once, when the converter is made, which panics on a field that has no counterpart or
// one of another kind.
type converter[G, P any] struct{ toProto, fromProto copyFunc }

// copyFunc copies one value to another; both are addressable.
type copyFunc func(to, from reflect.Value)

// newConverter makes a converter; the fields named in except are left to the caller.
func newConverter[G, P any](values valueCopies, except ...string) converter[G, P] {
	g, p := reflect.TypeFor[G](), reflect.TypeFor[P]()
	return converter[G, P]{toProto: values.structCopy(p, g, except), fromProto: values.structCopy(g, p, except)}
}

func (c converter[G, P]) proto(from *G) *P {
	to := new(P)
	c.toProto(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
	return to
}

// read leaves zero what the message does not set; nil is an empty message.
func (c converter[G, P]) read(from *P) (to G) {
	if from != nil {
		c.fromProto(reflect.ValueOf(&to).Elem(), reflect.ValueOf(from).Elem())
	}
	return to
}

// valueCopies are the conversions of types that have one of their own, by target and source.
type valueCopies map[[2]reflect.Type]copyFunc

// addValueCopy adds a type's own conversion and its inverse.
func addValueCopy[G, P any](values valueCopies, toProto func(G) P, fromProto func(P) G) {
	values[[2]reflect.Type{reflect.TypeFor[P](), reflect.TypeFor[G]()}] = copyWith(toProto)
	values[[2]reflect.Type{reflect.TypeFor[G](), reflect.TypeFor[P]()}] = copyWith(fromProto)
}

func copyWith[A, B any](convert func(A) B) copyFunc {
	return func(to, from reflect.Value) {
		*to.Addr().Interface().(*B) = convert(*from.Addr().Interface().(*A))
	}
}

// structCopy copies each field. The unexported ones of messages are protobuf's.
func (values valueCopies) structCopy(to, from reflect.Type, except []string) copyFunc {
	source := counterparts(from, except)
	var copies []copyFunc
	for name, field := range counterparts(to, except) {
		other, ok := source[name]
		if !ok {
			panic(fmt.Sprintf("session: %s.%s has no counterpart in %s", to, field.Name, from))
		}
		delete(source, name)
		copies = append(copies, fieldCopy(field.Index[0], other.Index[0], values.copyOf(field.Type, other.Type)))
	}
	for _, f := range source {
		panic(fmt.Sprintf("session: %s.%s has no counterpart in %s", from, f.Name, to))
	}
	return func(to, from reflect.Value) {
		for _, c := range copies {
			c(to, from)
		}
	}
}

func fieldCopy(to, from int, value copyFunc) copyFunc {
	return func(t, f reflect.Value) { value(t.Field(to), f.Field(from)) }
}

// counterparts are a struct's exported fields by their name in lower case.
func counterparts(t reflect.Type, except []string) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !slices.Contains(except, f.Name) {
			fields[strings.ToLower(f.Name)] = f
		}
	}
	return fields
}

// copyOf chooses what copies a value of one type to the other. It panics where none can.
func (values valueCopies) copyOf(to, from reflect.Type) copyFunc {
	if c := values[[2]reflect.Type{to, from}]; c != nil {
		return c
	}
	switch {
	case isPointerToStruct(to) && isPointerToStruct(from):
		return copyPointed(values.structCopy(to.Elem(), from.Elem(), nil))
	case isPointerToStruct(to) && from.Kind() == reflect.Struct:
		return copyToPointer(values.structCopy(to.Elem(), from, nil))
	case to.Kind() == reflect.Struct && isPointerToStruct(from):
		return copyFromPointer(values.structCopy(to, from.Elem(), nil))
	case isBytes(to) && isBytes(from):
		return func(to, from reflect.Value) { to.SetBytes(bytesOrNil(from.Bytes())) }
	case isBytes(to) && from.Kind() == reflect.String:
		return func(to, from reflect.Value) { to.SetBytes([]byte(from.String())) }
	case to.Kind() == reflect.String && isBytes(from):
		return func(to, from reflect.Value) { to.SetString(string(from.Bytes())) }
	case to.Kind() == reflect.Slice && from.Kind() == reflect.Slice:
		return copyElements(values.copyOf(to.Elem(), from.Elem()))
	}
	return scalarCopy(to, from)
}

func scalarCopy(to, from reflect.Type) copyFunc {
	switch same := to.Kind() == from.Kind(); {
	case same && to.Kind() == reflect.String:
		return func(to, from reflect.Value) { to.SetString(from.String()) }
	case same && to.Kind() == reflect.Bool:
		return func(to, from reflect.Value) { to.SetBool(from.Bool()) }
	case same && reflect.Zero(to).CanInt():
		return func(to, from reflect.Value) { to.SetInt(from.Int()) }
	case same && reflect.Zero(to).CanUint(), isByteAsUint32(to, from), isByteAsUint32(from, to):
		return copyUint
	}
	panic(fmt.Sprintf("session: a %s is not made from a %s", to, from))
}

// isByteAsUint32: protobuf has no numbers of one byte. Any other pair of widths would lose
// large numbers on their way.
func isByteAsUint32(goType, message reflect.Type) bool {
	return goType.Kind() == reflect.Uint8 && message.Kind() == reflect.Uint32
}

// copyUint reads a number of a newer build that is too large as zero, which is invalid, rather
// than as another one that fits.
func copyUint(to, from reflect.Value) {
	if n := from.Uint(); !to.OverflowUint(n) {
		to.SetUint(n)
	}
}

func copyPointed(value copyFunc) copyFunc {
	return func(to, from reflect.Value) {
		if !from.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			value(to.Elem(), from.Elem())
		}
	}
}

func copyToPointer(value copyFunc) copyFunc {
	return func(to, from reflect.Value) {
		to.Set(reflect.New(to.Type().Elem()))
		value(to.Elem(), from)
	}
}

func copyFromPointer(value copyFunc) copyFunc {
	return func(to, from reflect.Value) {
		if !from.IsNil() {
			value(to, from.Elem())
		}
	}
}

// copyElements keeps none as nil.
func copyElements(value copyFunc) copyFunc {
	return func(to, from reflect.Value) {
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			value(to.Index(i), from.Index(i))
		}
	}
}

func isPointerToStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func bytesOrNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}
