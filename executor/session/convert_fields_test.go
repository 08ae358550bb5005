package session

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// A field that only one side has would silently not cross; the converter is not even made.
func TestAConverterIsOfTheSameFieldsOnBothSides(t *testing.T) {
	type value struct{ Size int64 }
	type more struct{ Size, Epoch int64 }
	type text struct{ Size string }
	type narrow struct{ Size int32 }
	type number struct{ Size uint64 }
	type small struct{ Size uint32 }
	for name, c := range map[string]struct {
		make func()
		want string
	}{
		"a field without a counterpart in the message": {func() { newConverter[more, value](nil) }, "session: session.more.Epoch has no counterpart in session.value"},
		"a field of the message only":                  {func() { newConverter[value, more](nil) }, "session: session.more.Epoch has no counterpart in session.value"},
		"another kind":                                 {func() { newConverter[value, text](nil) }, "session: a string is not made from a int64"},
		"another width":                                {func() { newConverter[value, narrow](nil) }, "session: a int32 is not made from a int64"},
		"another width without a sign":                 {func() { newConverter[number, small](nil) }, "session: a uint32 is not made from a uint64"},
	} {
		t.Run(name, func(t *testing.T) { require.PanicsWithValue(t, c.want, c.make) })
	}
	require.NotPanics(t, func() { newConverter[more, value](nil, "Epoch") })
}

func TestANumberThatDoesNotFitIsReadAsZero(t *testing.T) {
	type value struct{ Goal fsm.Goal }
	type message struct{ Goal uint32 }
	c := newConverter[value, message](nil)
	require.Equal(t, value{255}, c.read(&message{255}))
	require.Zero(t, c.read(&message{256}))
	require.Zero(t, c.read(nil))
}

func BenchmarkDesiredVolumeCrossesTheWire(b *testing.B) {
	var full fsm.DesiredVolume
	var n int64
	fillDistinct(reflect.ValueOf(&full).Elem(), &n)
	b.ReportAllocs()
	for b.Loop() {
		desiredVolumeFromProto(desiredVolumeToProto(full))
	}
}
