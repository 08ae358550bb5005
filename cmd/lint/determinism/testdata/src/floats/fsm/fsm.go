package fsm

type share float64 // want `floating point` `floating point`

func divides(a, b int64, s share) int64 { // want `floating point` `floating point`
	_ = float32(a) / 2 // want `floating point`
	x := 0.5           // want `floating point` `floating point`
	_ = x              // want `floating point`
	_ = complex(1, 2)  // want `floating point`
	const whole = 1 << 10
	return a * whole / b
}
