package model

import "context"

// Observe begins to watch a call of a store, for metrics and traces. The call goes on with the context
// that it returns, and ends with the function, which is told why the store could not be used. It is
// told nil for an answer, and a refusal, such as a limit that is reached, is one. op is one of a few
// names: it holds nothing that a caller chose. A nil Observe watches nothing. Safe for concurrent use.
type Observe func(ctx context.Context, store, op string) (context.Context, func(failure error))

// Begin is the call of o, also of a nil one.
func (o Observe) Begin(ctx context.Context, store, op string) (context.Context, func(failure error)) {
	if o == nil {
		return ctx, func(error) {}
	}
	return o(ctx, store, op)
}
