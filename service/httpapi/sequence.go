package httpapi

import (
	"fmt"

	"shardid/model"
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// The protocols of sequences: numbers of a key, and how far the key has come.
var (
	ofSequence = protocol{[]string{"count", "ranges", "key"}, true, readSequence}
	ofCurrent  = protocol{[]string{"key"}, true, readCurrent}
)

// routeSequences adds the routes of sequences.
func (a *API) routeSequences(e *gin.Engine) {
	ids := a.ids(access.Sequence, &ofSequence, nil)
	e.GET("/v1/sequence/:space/ids", ids)
	e.POST("/v1/sequence/:space/ids", ids)
	routeGet(e, "/v1/sequence/:space/current", a.ids(access.Sequence, &ofCurrent, nil))
}

// readSequence reads the parameters of /v1/sequence/{space}/ids.
func readSequence(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	key := given[2]
	given[2] = param{} // where other modes have their format
	q, err := readV1(c, q, given)
	if err != nil {
		return q, err
	}
	return q.ofKey(c, key)
}

// readCurrent reads the parameters of /v1/sequence/{space}/current, which issues nothing.
func readCurrent(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	q.Count, q.form = 0, asCurrent
	return q.ofKey(c, given[0])
}

// ofKey says whose numbers are asked for. A key is any bytes.
func (q asked) ofKey(c *gin.Context, key param) (asked, error) {
	q.Space, q.Key = c.Param("space"), key.text
	if !key.given {
		return q, fmt.Errorf("%w: key is missing: GET /v1/sequence/chat/ids?key=room42", model.ErrInvalidArgument)
	}
	return q, nil
}
