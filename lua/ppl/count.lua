-- count.lua - so many of something, in words: count(1, 'stage') is "1 stage", count(4, 'stage') "4 stages", count(4, 'microbatch') "4
-- microbatches".
return function(n, noun)
    return ('%d %s%s'):format(n, noun, n == 1 and '' or noun:find 'ch$' and 'es' or 's')
end
