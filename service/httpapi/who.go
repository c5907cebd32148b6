package httpapi

import "github.com/gin-gonic/gin"

// whoKey is where a request keeps the name of its token.
const whoKey = "shardid.who"

// who is the name of the token that a request came with; "" for none. It is never
// the token itself.
func who(c *gin.Context) string { return c.GetString(whoKey) }
