package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Sequence is where the numbers of a space come from, which rise for each key. Safe for concurrent
// use.
type Sequence struct {
	client *Client
	path   string
}

// Next is the next number of a key, any 1 to 256 bytes: whoever asks after it was returned gets a
// higher one, from any replica. Errors are those of Source.Next. A call that fails may leave out
// numbers.
func (s *Sequence) Next(ctx context.Context, key string) (int64, error) {
	numbers, err := s.Take(ctx, key, 1)
	if err != nil {
		return 0, err
	}
	return numbers[0], nil
}

// maxRegions is how far apart two numbers are at most: as far as there are regions, 2^6 of them.
const maxRegions = 64

// Take is the next n numbers of a key, 1 to MaxNumbers without one of this region between them, from
// one request.
func (s *Sequence) Take(ctx context.Context, key string, n int) (numbers []int64, err error) {
	if n < 1 || n > MaxNumbers {
		return nil, fmt.Errorf("shardid: %d numbers: ask for 1 to %d", n, MaxNumbers)
	}
	form := url.Values{"key": {key}, "count": {strconv.Itoa(n)}, "ranges": {"true"}}
	q := question{method: http.MethodPost, path: s.path + "ids", form: form.Encode()}
	err = s.client.askNow(ctx, q, func(a answer) error {
		ranges, err := a.ranges(n)
		if err != nil {
			return err
		}
		if len(ranges) != 1 || ranges[0].Stride > maxRegions {
			return errors.New("numbers that do not follow each other")
		}
		numbers = make([]int64, n)
		for i := range numbers {
			numbers[i] = ranges[0].First + int64(i)*ranges[0].Stride
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return numbers, nil
}

// Current is how far a key has come: at or above every number that was issued for it, below every
// one to come, and 0 before the first. It issues nothing.
func (s *Sequence) Current(ctx context.Context, key string) (current int64, err error) {
	q := question{method: http.MethodGet, path: s.path + "current?key=" + url.QueryEscape(key)}
	err = s.client.askNow(ctx, q, func(a answer) error {
		if a.Current == nil || *a.Current < 0 {
			return errors.New("nothing about how far the key has come")
		}
		current = *a.Current
		return nil
	})
	return current, err
}
